"""vote: `answer` asked several times with sampling, and the answer that most of the samples agree on."""

import re
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, model_validator

from pipeline.completions import seed
from pipeline.cost import summed
from pipeline.env import Completion
from pipeline.scoring.answers import f1, normalise_answer
from pipeline.stages.answer import Answer, Turn

VOTE = pa.struct(
    [
        ("answer", pa.string()),  # null where generation failed
        ("key", pa.string()),  # what is counted: normalised text or a letter; null: no vote
        ("agreement", pa.float32()),  # mean token-F1 with the other votes' keys; 1 where there is no other
    ]
)


class Vote(Answer):
    """The answer of the largest group of equal votes; of equally large groups, the one whose first vote agrees most
    with all others (mean token-F1); then the group that was voted for first.

    Votes are equal when their normalised texts are (scoring's normalisation), or their letters where the question has
    lettered options. In free text all groups are often of size 1: the rule then takes the medoid. Every setting of
    `answer` is one of `vote`, so any system can have as many votes as another. A vote that failed, is empty, or names
    no letter is recorded and not counted; where none counts, the first sample is the answer, with confidence 0.
    """

    name: ClassVar[str] = "vote"
    voter_num: int = Field(10, gt=0, description="samples a question")
    temperature: float = Field(0.7, ge=0)
    letters: str | None = Field(None, pattern=r"^[A-Z]{2,}$", description="of the options, as in ABCD; null: free text")

    @model_validator(mode="after")
    def _votes_differ(self) -> "Vote":
        if self.voter_num > 1 and self.temperature == 0:
            raise ValueError(f"temperature 0 makes all {self.voter_num} votes equal: raise it, or set voter_num to 1")
        return self

    def writes(self) -> dict[str, pa.DataType]:
        return {**super().writes(), "confidence": pa.float32(), "votes": pa.list_(VOTE)}

    def _seeds(self, question_id: str) -> list[int]:
        return [seed(f"{self.name} {number}", question_id) for number in range(self.voter_num)]

    def _row(self, turn: Turn, samples: list[list[Completion]]) -> dict[str, Any]:
        if not samples:
            return {**self._sampled(turn, []), "confidence": None, "votes": []}
        rows = [self._sampled(turn, calls) for calls in samples]
        keys = [self._key(row["answer"]) if row["error"] is None else None for row in rows]
        winner, share, agreements = elected(keys)
        chosen = rows[winner] if any(keys) else next((row for row in rows if row["error"] is None), rows[0])
        votes = [
            {"answer": row["answer"], "key": key, "agreement": agreement}
            for row, key, agreement in zip(rows, keys, agreements, strict=True)
        ]
        answer = keys[winner] if self.letters and any(keys) else chosen["answer"]
        trace = self._trace(turn, [row["trace"] for row in rows], uncounted=keys.count(None))
        return {**chosen, "answer": answer, "confidence": share, "votes": votes, "trace": trace}

    def _key(self, answer: str) -> str | None:
        if self.letters:
            return option_letter(answer, self.letters)
        return normalise_answer(answer) or answer.strip().lower() or None

    def _trace(self, turn: Turn, traces: list[dict[str, Any]], uncounted: int) -> dict[str, Any]:
        """One entry for all samples: counts added up; what each of them noted, once a sample."""
        own = [note for trace in traces for note in trace["notes"][len(turn.notes) :]]
        notes = [*turn.notes, *own, *[f"vote: {uncounted} of {len(traces)} not counted"] * (uncounted > 0)]
        return {"kept": turn.items, **summed(traces), "notes": notes}


def elected(keys: list[str | None]) -> tuple[int, float, list[float | None]]:
    """(number of the winning vote, votes of its group / all votes, each vote's agreement); `keys`: at least one."""
    agreements = [_agreement(number, keys) for number in range(len(keys))]
    first = {key: number for number, key in reversed(list(enumerate(keys))) if key is not None}
    if not first:
        return 0, 0.0, agreements
    winner = min(first.values(), key=lambda n: (-keys.count(keys[n]), -(agreements[n] or 0.0), n))
    return winner, keys.count(keys[winner]) / len(keys), agreements


def _agreement(number: int, keys: list[str | None]) -> float | None:
    own = keys[number]
    others = [key for other, key in enumerate(keys) if other != number and key is not None]
    if own is None:
        return None
    return sum(f1(own, key) for key in others) / len(others) if others else 1.0


def option_letter(answer: str, letters: str) -> str | None:
    """The option an answer settles on: the last letter that stands alone as an option does, because reasoning comes
    first. `(B)`, `B)`, `B.` or `B:` at the start of a line, `answer is B`, `option B`, or a line with nothing else;
    the article in "A whale" is none."""
    one = f"[{letters}]"
    marked = rf"\(({one})\)|^\s*({one})(?:[).:]|\s*$)|(?i:\b(?:answer|option|choice)(?:\s+is)?:?\s+)({one})(?!\w)"
    found = re.findall(marked, answer.replace("*", ""), re.MULTILINE)
    return "".join(found[-1]) if found else None
