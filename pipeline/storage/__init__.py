"""Where indexes live: `open_home` gives a local folder or an S3 prefix the same few operations. Nothing is visible
under its final name until it is whole, and what is whole is never written again.

A step's output is *committed*: its files go to a folder named by their contents' hash, then `commit/<name>.json`, which
lists them with sizes and sha256, is created if it does not exist yet. Whoever comes second discards its attempt.
"""

from pipeline.storage.files import create_file, read_json, sha256_file, to_json, write_file
from pipeline.storage.home import ChangedError, Home, Record, open_home

__all__ = [
    "ChangedError",
    "Home",
    "Record",
    "create_file",
    "open_home",
    "read_json",
    "sha256_file",
    "to_json",
    "write_file",
]
