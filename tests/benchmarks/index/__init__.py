"""What an index build is measured by: `make bench-index`, or `python -m tests.benchmarks.index [NAME...]`."""
