"""Which sentences of an answer its evidence supports, by the rule of `pipeline.scoring.support`."""

from collections.abc import Sequence

from pipeline.scoring.support import MINIMUM, sentence_support

RULE = (
    f"a sentence counts as supported if one item of the evidence has at least {MINIMUM:.0%} of its content words, and "
    "all of its numbers"
)


def judged_sentences(answer: str, evidence: Sequence[str]) -> list[tuple[str, bool]]:
    """The answer's sentences, which joined give the answer, and whether the evidence supports each (`RULE`).

    One that makes no statement ("Yes.") has nothing to support.
    """
    judged, done = [], 0
    for sentence, good in sentence_support(answer, evidence):
        end = answer.index(sentence, done) + len(sentence)
        judged.append((answer[done:end], good is not False))
        done = end
    return [*judged, (answer[done:], True)] if done < len(answer) else judged
