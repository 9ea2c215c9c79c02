"""LiveRAG's metrics over claims (arXiv 2507.04942): arithmetic alone; `judge.py` finds claims and relations.

A claim is direct (answers the question), useful (helps to understand the answer) or useless. A relation says what a
text does to a claim: 1 entails, 0 neutral, -1 contradicts; None where the judge's reply could not be read, which makes
a metric None wherever it could matter.

  coverage      in [-1, 1]: alpha x mean relation over the reference's direct claims
                + (1 - alpha) x the same over its useful ones; alpha = .7
  relatedness   in [0, 1]: direct / (direct + useless) claims of the answer
  correctness   in [-1, 2]: harmonic mean of the two, scaled
  faithfulness  in [-1, 1]: mean over the answer's claims of the best relation with a passage

Not published, so by our convention: a reference without useful claims has alpha = 1, one without direct claims 0; an
answer with neither direct nor useless claims has relatedness 0; an answer without claims has faithfulness 0; coverage
of 0 or less is the harmonic mean's place (so a wrong answer stays negative); `SCALINGS`.
"""

from collections.abc import Sequence
from typing import Literal, get_args

Relation = Literal[1, 0, -1]
Scaling = Literal["signed", "linear", "none"]
# signed: h >= 0 becomes 2h, h < 0 stays: 2 right, 0 no answer, -1 wrong, as the challenge's guideline has it;
# linear: [-1, 1] stretched to [-1, 2], where no answer is .5; none: h itself, in [-1, 1].
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
ALPHA = 0.7
Relations = Sequence[Relation | None]


def coverage(direct: Relations, useful: Relations, alpha: float = ALPHA) -> float | None:
    """Of the reference's claims by the answer. None where there are none, or a relation is unknown."""
    if not direct and not useful:
        return None
    if not direct or not useful:
        return _mean([*direct, *useful])
    means = _mean(direct), _mean(useful)
    return None if means[0] is None or means[1] is None else alpha * means[0] + (1 - alpha) * means[1]


def relatedness(direct: int, useless: int) -> float:
    """Of the answer, from the numbers of its claims."""
    return direct / (direct + useless) if direct + useless else 0.0


def correctness(cover: float, related: float, scaling: Scaling = "signed") -> float:
    """From coverage and relatedness."""
    mean = 2 * cover * related / (cover + related) if cover > 0 else cover
    if scaling == "signed":
        return 2 * mean if mean >= 0 else mean
    return 1.5 * mean + 0.5 if scaling == "linear" else mean


def faithfulness(claims: Sequence[Relations]) -> float | None:
    """`claims`: per claim of the answer its relation with each passage. A claim without passages is neutral (0)."""
    return _mean([best_relation(relations) for relations in claims]) if claims else 0.0


def best_relation(relations: Relations) -> Relation | None:
    """The best of a claim's relations; an unknown one does not matter where another is 1 already."""
    known = [relation for relation in relations if relation is not None]
    if 1 in known or len(known) == len(relations):
        return max(known, default=0)
    return None


def _mean(values: Relations) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
