"""Scores of a run: `run.read_run`, perhaps `run.apply_gold`, then `score.score_rows` gives a `table.ScoreTable`."""
