"""What a judge says about the rows of a run: LiveRAG's claims metrics, similarity with the gold, groundedness.

Read as the challenge reads: the first 300 words of an answer, the first 10 passages of its LiveRAG line. Similarity (to
the gold answers) and groundedness (mean over the answer's sentences, against the evidence) are grades from 0 to 10, as
those of Adobe's system (arXiv 2412.03736, groundedness after TruLens); the prompts are ours.

No judge is asked where the outcome is known: a failed row scores 0 on all metrics whose gold it has; an abstention has
correctness, coverage, relatedness, faithfulness and similarity 0 and no groundedness, and is counted as abstained.
Without gold a row has no coverage, correctness and similarity, with gold whose claims are all useless neither of the
first two. A metric one of whose replies stayed unreadable is null and named in `excluded`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline.completions import first_words
from pipeline.evidence import joined
from pipeline.liverag import answer_line
from pipeline.schema import STRINGS
from pipeline.scoring import claims
from pipeline.scoring.answers import NULL_RESPONSES, abstained
from pipeline.scoring.judge import Claim, Judge, Task
from pipeline.scoring.support import evidence_of, sentence_support

Row = Mapping[str, Any]
CLAIM = pa.struct(
    [
        ("of", pa.string()),  # answer or reference
        ("kind", pa.string()),  # direct, useful, useless
        ("text", pa.string()),
        ("relation", pa.int8()),  # of: answer: the best with a passage; of: reference: with the answer; null: unread
    ]
)
GRADED = ("coverage", "relatedness", "correctness", "faithfulness", "similarity", "groundedness")
NEED_GOLD = ("coverage", "correctness", "similarity")
JUDGED = pa.schema(
    [
        ("id", pa.string()),
        *[(metric, pa.float64()) for metric in GRADED],
        ("excluded", STRINGS),  # metrics without a value because a reply could not be read
        ("claims", pa.list_(CLAIM)),
    ]
)


@dataclass(frozen=True)
class Grading:
    """How claims metrics are computed; part of what makes two judgements comparable."""

    alpha: float = claims.ALPHA
    words: int = 300
    passages: int = 10
    null_responses: Sequence[str] = NULL_RESPONSES


def judge_rows(
    rows: Sequence[Row], judge: Judge, grading: Grading = Grading(), references: Mapping[str, list[Claim]] | None = None
) -> pa.Table:
    """A table of `JUDGED`, a row a row. `references`: question id -> claims of the gold answer, where somebody has
    written them down; else the judge takes them from the first gold answer."""
    cases = [_Case(row, grading, (references or {}).get(row["id"])) for row in rows]
    for tasks in (_Case.claims_and_grades, _Case.relations):
        wanted = [(case, name, task) for case in cases if case.open for name, task in tasks(case).items()]
        for (case, name, _), value in zip(wanted, judge.ask([task for *_, task in wanted]), strict=True):
            case.read[name] = value
    return pa.Table.from_pylist([case.result() for case in cases], schema=JUDGED)


def scaled(judged: pa.Table, scaling: claims.Scaling) -> pa.Table:
    """The same verdicts with correctness scaled in another way: arithmetic, no judge is asked."""
    pairs = zip(judged["coverage"].to_pylist(), judged["relatedness"].to_pylist(), strict=True)
    values = [
        None if cover is None or related is None else claims.correctness(cover, related, scaling)
        for cover, related in pairs
    ]
    column = JUDGED.get_field_index("correctness")
    return judged.set_column(column, JUDGED.field(column), pa.array(values, pa.float64()))


class _Case:
    """One row, and what was read about it: claims and grades first, then the relations of the claims."""

    def __init__(self, row: Row, grading: Grading, reference: list[Claim] | None) -> None:
        self._row, self._grading, self._reference = row, grading, reference
        self._answer = first_words(row.get("answer") or "", grading.words)
        self._golds: list[str] = row.get("answers") or []
        self._passages = [item["passage"] for item in answer_line(row, 0)["passages"][: grading.passages]]
        self._evidence = joined(evidence_of(row))
        self._statements = [sentence for sentence, good in sentence_support(self._answer, []) if good is not None]
        self._failed = row.get("error") is not None
        self.open = not self._failed and not abstained(self._answer, grading.null_responses)
        self.read: dict[tuple[Any, ...], Any] = {}

    def claims_and_grades(self) -> dict[tuple[Any, ...], Task]:
        asked = {"question": self._row["question"], "answer": self._answer}
        tasks: dict[tuple[Any, ...], Task] = {("answer",): Task("judge_claims", asked)}
        if self._golds:
            golds = " | or: ".join(self._golds)
            tasks["similarity",] = Task("judge_similarity", {**asked, "reference": golds})
            if self._reference is None:
                tasks["reference",] = Task("judge_claims", {**asked, "answer": self._golds[0]})
        if self._evidence:
            for n, statement in enumerate(self._statements):
                slots = {"source": self._evidence, "statement": statement}
                tasks["grounded", n] = Task("judge_groundedness", slots)
        return tasks

    def relations(self) -> dict[tuple[Any, ...], Task]:
        tasks: dict[tuple[Any, ...], Task] = {}
        for n, claim in enumerate(self._referred() or []):
            if claim.kind != "useless":
                tasks["covered", n] = Task("judge_relation", {"text": self._answer, "claim": claim.text})
        for n, claim in enumerate(self.read["answer",] or []):
            for place, passage in enumerate(self._passages):
                tasks["faithful", n, place] = Task("judge_relation", {"text": passage, "claim": claim.text})
        return tasks

    def result(self) -> dict[str, Any]:
        """A row of `JUDGED`."""
        has_gold = bool(self._golds or self._reference)
        metrics = [metric for metric in GRADED if has_gold or metric not in NEED_GOLD]
        if not self.open:
            known = {metric: 0.0 for metric in metrics if self._failed or metric != "groundedness"}
            return {"id": self._row["id"], **known, "excluded": [], "claims": []}
        values = {**self._by_claims(), "similarity": self.read.get(("similarity",)), "groundedness": self._grounded()}
        undefined = {"groundedness"} if not self._statements else set()
        undefined |= set() if self._golds else {"similarity"}
        referred = self._referred()
        if referred is not None and all(claim.kind == "useless" for claim in referred):
            undefined |= {"coverage", "correctness"}  # the gold answer claims nothing that could be covered
        excluded = [metric for metric in metrics if values[metric] is None and metric not in undefined]
        kept = {metric: values[metric] for metric in metrics}
        return {"id": self._row["id"], **kept, "excluded": excluded, "claims": self._claims()}

    def _referred(self) -> list[Claim] | None:
        """The claims of the gold answer: [] where it makes none, None where they are unknown."""
        return self._reference if self._reference is not None else self.read.get(("reference",))

    def _covered(self, kind: str) -> list[Any]:
        return [self.read["covered", n] for n, claim in enumerate(self._referred() or []) if claim.kind == kind]

    def _faithful(self) -> list[list[Any]]:
        places = range(len(self._passages))
        return [[self.read["faithful", n, place] for place in places] for n, _ in enumerate(self.read["answer",] or [])]

    def _by_claims(self) -> dict[str, float | None]:
        said: list[Claim] | None = self.read["answer",]
        cover = claims.coverage(self._covered("direct"), self._covered("useful"), self._grading.alpha)
        related = faithful = correct = None
        if said is not None:
            kinds = [claim.kind for claim in said]
            related = claims.relatedness(kinds.count("direct"), kinds.count("useless"))
            faithful = claims.faithfulness(self._faithful())
        if cover is not None and related is not None:
            correct = claims.correctness(cover, related)
        return {"coverage": cover, "relatedness": related, "correctness": correct, "faithfulness": faithful}

    def _grounded(self) -> float | None:
        if not self._evidence:
            return 0.0 if self._statements else None
        grades = [self.read["grounded", n] for n, _ in enumerate(self._statements)]
        return sum(grades) / len(grades) if grades and None not in grades else None

    def _claims(self) -> list[dict[str, Any]]:
        best = [claims.best_relation(relations) for relations in self._faithful()]
        said = [
            {"of": "answer", **claim._asdict(), "relation": relation}
            for claim, relation in zip(self.read["answer",] or [], best, strict=True)
        ]
        referred = [
            {"of": "reference", **claim._asdict(), "relation": self.read.get(("covered", n))}
            for n, claim in enumerate(self._referred() or [])
        ]
        return [*said, *referred]
