"""The commands: thin files that join `pipeline` and `ray_cluster`; each is `tartan NAME` and `python -m jobs.NAME`."""
