"""Corpora: reading documents, cutting them into passages, and planning shards."""
