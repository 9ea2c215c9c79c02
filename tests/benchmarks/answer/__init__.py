"""What an answering job is measured by: `make bench-answer`, or `python -m tests.benchmarks.answer [NAME...]`."""
