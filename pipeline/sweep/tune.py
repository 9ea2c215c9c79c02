"""Choosing settings on some questions and reporting on others.

Every variant's score of every question is known (`outcome.score_variants`), so a choice is arithmetic: the variant with
the highest mean over the questions it may see; of equal ones the first. Nothing else is fitted.

  nested     k folds: each is scored with the variant chosen on the other k - 1; together, all questions held out once
  held_out   one part chosen on, the rest reported on (Adobe's 60% and 40%)
  tuned      chosen and reported on the same questions: a mistake, kept to show its size, and marked in every output
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.scoring.intervals import is_share, mean_interval
from pipeline.scoring.paired import compare

How = Literal["nested", "held_out", "tuned"]
WARNING = "REPORTED ON THE QUESTIONS IT WAS TUNED ON: an optimistic number, not one to publish"
Scores = Mapping[str, Mapping[str, float]]  # variant -> question id -> objective

TUNED = pa.schema(
    [
        ("fold", pa.string()),  # number from 1, "all" for the line over all folds
        ("chosen", pa.string()),  # variant; for all: the one chosen on all questions, for use from now on
        ("objective", pa.string()),
        ("tuned_n", pa.int64()),
        ("tuned_mean", pa.float64()),  # of the chosen variant on the questions it was chosen on; all: mean over folds
        ("n", pa.int64()),  # questions reported on
        ("mean", pa.float64()),  # on these
        ("low", pa.float64()),  # of the mean: Wilson where all values are 0 or 1, else bootstrap
        ("high", pa.float64()),
        ("gap", pa.float64()),  # tuned_mean - mean
        ("baseline_mean", pa.float64()),  # on the same questions
        ("difference", pa.float64()),  # mean - baseline_mean
        ("difference_low", pa.float64()),
        ("difference_high", pa.float64()),
        ("p", pa.float64()),
        ("excluded", pa.int64()),  # questions without the objective in some variant
        ("method", pa.string()),
        ("warning", pa.string()),  # null, or that it was tuned on what it reports
    ]
)


def objective_scores(tables: Mapping[str, pa.Table], objective: str) -> tuple[dict[str, dict[str, float]], int]:
    """The objective of the questions that have it in every variant, and how many have not.

    Raises InputError where a variant lacks the metric, or too few questions have it.
    """
    for name, table in tables.items():
        if objective not in table.column_names:
            numbers = [field.name for field in table.schema if pa.types.is_floating(field.type)]
            raise InputError(
                f"--objective {objective}: variant '{name}' has no such metric; it has {', '.join(numbers)}."
            )
    values = {
        name: dict(zip(table["id"].to_pylist(), table[objective].to_pylist(), strict=True))
        for name, table in tables.items()
    }
    ids = list(next(iter(values.values())))
    shared = [id for id in ids if all(found.get(id) is not None for found in values.values())]
    if len(shared) < 2:
        raise InputError(f"--objective {objective}: {len(shared)} of {len(ids)} questions have it in every variant.")
    return {name: {id: found[id] for id in shared} for name, found in values.items()}, len(ids) - len(shared)


def choose(scores: Scores, ids: Sequence[str]) -> str:
    """The variant with the highest mean over these questions; of equal ones the first."""
    return max(scores, key=lambda name: sum(scores[name][id] for id in ids))


def tune(
    scores: Scores,
    baseline: str,
    objective: str,
    how: How = "nested",
    folds: int = 5,
    held_out: float = 0.4,
    seed: int = 0,
    excluded: int = 0,
) -> pa.Table:
    """A table of `TUNED`: a line a fold, and one for all of them together."""
    ids = list(scores[baseline])
    lines, reported, against, tuned = [], list[float](), list[float](), list[float]()
    parts = _parts(ids, how, folds, held_out, seed)
    for number, (seen, unseen) in enumerate(parts, 1):
        chosen = choose(scores, seen)
        own = [scores[chosen][id] for id in unseen]
        theirs = [scores[baseline][id] for id in unseen]
        tuned.append(sum(scores[chosen][id] for id in seen) / len(seen))
        lines.append({"fold": str(number), **_line(objective, chosen, len(seen), tuned[-1], own, theirs)})
        reported += own
        against += theirs
    whole = _line(objective, choose(scores, ids), len(ids), sum(tuned) / len(tuned), reported, against)
    note = {"objective": objective, "excluded": excluded, "warning": WARNING if how == "tuned" else None}
    method = _method(objective, how, len(parts), held_out, seed)
    return pa.Table.from_pylist(
        [{**line, **note, "method": method} for line in [*lines, {"fold": "all", **whole}]], schema=TUNED
    )


def _parts(ids: list[str], how: How, folds: int, held_out: float, seed: int) -> list[tuple[list[str], list[str]]]:
    """(questions to choose on, questions to report on), by a shuffle that depends on the seed alone."""
    if how == "tuned":
        return [(ids, ids)]
    mixed = random.Random(seed).sample(ids, len(ids))
    if how == "held_out":
        size = round(held_out * len(ids))
        if not 0 < size < len(ids):
            raise InputError(f"--held-out {held_out}: leaves {size} of {len(ids)} questions; both parts need one.")
        return [(mixed[size:], mixed[:size])]
    if not 2 <= folds <= len(ids):
        raise InputError(f"--folds {folds}: wants from 2 to {len(ids)}, the number of questions with the objective.")
    groups = [mixed[start::folds] for start in range(folds)]
    return [([id for other in groups if other is not group for id in other], group) for group in groups]


def _line(
    objective: str, chosen: str, seen: int, tuned: float, own: list[float], theirs: list[float]
) -> dict[str, Any]:
    found = compare(theirs, own, is_share(objective))
    low, high = mean_interval(objective, own)[0] or (None, None)
    mean = sum(own) / len(own)
    return {
        "chosen": chosen,
        "tuned_n": seen,
        "tuned_mean": tuned,
        "n": len(own),
        "mean": mean,
        "low": low,
        "high": high,
        "gap": tuned - mean,
        "baseline_mean": sum(theirs) / len(theirs),
        "difference": found.mean,
        "difference_low": found.low,
        "difference_high": found.high,
        "p": found.p,
    }


def _method(objective: str, how: How, folds: int, held_out: float, seed: int) -> str:
    ways = {
        "nested": f"nested cross-validation, {folds} folds, seed {seed}",
        "held_out": f"{held_out:.0%} held out, seed {seed}",
        "tuned": WARNING,
    }
    mean = mean_interval(objective, [])[1]
    test = "exact McNemar" if is_share(objective) else "sign-flip randomization"
    return f"{ways[how]}; mean: {mean}; difference: 95% paired bootstrap (2000 resamples, seed 0), p by {test}"
