"""What each metric is, for readers of a table: definition, range, source. The modules that compute them say more."""

import re
from typing import NamedTuple

from pipeline.scoring.judge import MARK


class Definition(NamedTuple):
    """`metric`: its family where it has a depth, such as nDCG@k."""

    metric: str
    says: str
    range: str
    source: str


_TREC = "trec_eval, by ir-measures"
_CLAIMS = "LiveRAG (arXiv 2507.04942)"
DEFINITIONS = (
    Definition(
        "nDCG@k", "discounted gain of the gold documents in the first k, over the ideal ranking's", "0 to 1", _TREC
    ),
    Definition("R@k", "share of the gold documents that are in the first k", "0 to 1", _TREC),
    Definition("Success@k", "1 if a gold document is in the first k, else 0", "0 or 1", _TREC),
    Definition("RR", "1 / rank of the first gold document; its mean is MRR", "0 to 1", _TREC),
    Definition("AP", "mean precision at the ranks of the gold documents; its mean is MAP", "0 to 1", _TREC),
    Definition(
        "passage Success@k",
        "1 if a gold answer stands in one of the first k passages, else 0",
        "0 or 1",
        "DPR (arXiv 2004.04906)",
    ),
    Definition(
        "passage RR", "1 / rank of the first passage with a gold answer in it", "0 to 1", "DPR (arXiv 2004.04906)"
    ),
    Definition(
        "EM",
        "1 if the answer is a gold answer, but for case, punctuation, articles",
        "0 or 1",
        "SQuAD (arXiv 1606.05250)",
    ),
    Definition(
        "F1",
        "overlap of the words of answer and gold answer, the best gold counting",
        "0 to 1",
        "SQuAD (arXiv 1606.05250)",
    ),
    Definition(
        "containment",
        "1 if a gold answer stands in the answer, else 0",
        "0 or 1",
        "word for word, after SQuAD's normalisation",
    ),
    Definition("ROUGE-L", "longest common subsequence of words, F-measure", "0 to 1", "Lin 2004, by rouge-score"),
    Definition(
        "supported",
        "share of the answer's sentences whose words and numbers stand in one piece of evidence",
        "0 to 1",
        "our rule",
    ),
    Definition(
        "coverage", "how far the answer entails the gold answer's claims, direct ones counting .7", "-1 to 1", _CLAIMS
    ),
    Definition("relatedness", "direct claims among the answer's direct and useless ones", "0 to 1", _CLAIMS),
    Definition(
        "correctness",
        "harmonic mean of these two, scaled",
        "-1 to 2",
        f"{_CLAIMS}; scaling by our convention",
    ),
    Definition("faithfulness", "how far the first ten passages entail the answer's claims", "-1 to 1", _CLAIMS),
    Definition(
        "similarity", "grade of the answer against the gold answer", "0 to 10", "Adobe (arXiv 2412.03736); our prompt"
    ),
    Definition(
        "groundedness",
        "mean grade of the answer's sentences against the evidence",
        "0 to 10",
        "Adobe, after TruLens; our prompt",
    ),
    Definition("answer words", "length of the answer", "0 and more", "words between white space"),
    Definition("abstained", "share of questions that the system declined", "0 to 1", "a null response, or no words"),
    Definition(
        "blocked by guardrail",
        "share of questions whose answer the guardrail withheld",
        "0 to 1",
        "the system's guardrail",
    ),
    Definition("failed", "share of questions that ended in an error", "0 to 1", "the run's rows"),
)
_BY_NAME = {definition.metric: definition for definition in DEFINITIONS}


def definition_of(metric: str) -> Definition | None:
    """Of a metric as tables name it: with its depth, a judge's mark, or the kind of question it is for."""
    plain = re.sub(r"@\d+", "@k", metric.removesuffix(f" ({MARK})").partition(",")[0])
    return _BY_NAME.get(plain.removesuffix(" on unanswerable"))
