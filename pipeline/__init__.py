"""Everything Tartan does on one machine: corpora, indexes, models, stages, scores. Never imports ray (a test)."""
