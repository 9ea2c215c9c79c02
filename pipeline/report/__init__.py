"""The HTML report of one run or several: one file that opens anywhere, without a network."""
