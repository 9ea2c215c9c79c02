"""Measured comparisons, each against a named peer in the same process, runs in turn, medians: `make bench`."""
