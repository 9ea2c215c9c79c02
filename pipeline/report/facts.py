"""What every figure counts, taken from each question once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evidence import kept
from pipeline.report.source import Reported
from pipeline.report.support import judged_sentences
from pipeline.scoring.answers import abstained, containment

STEPS = ("retrieved", "kept", "in the prompt", "in the answer")


@dataclass(frozen=True)
class Facts:
    """Of one question. None: the system has no such thing, or nobody knows what is right.

    `gold_in` says for each of `STEPS` whether a gold answer stands there (pipeline.scoring.answers.containment).
    `cosines` are (cosine, whether the snippet contains a gold answer) of every snippet that was compared.
    `stages` are (seconds, calls, model tokens) by position in the trace.
    """

    documents: int | None
    kept: int | None
    prompt_characters: int | None
    gold_in: tuple[bool, bool, bool, bool] | None
    cosines: list[tuple[float, bool | None]]
    sentences: list[tuple[str, bool]]
    stages: list[tuple[str, float, int, int]]

    @property
    def tokens(self) -> int:
        return sum(tokens for *_, tokens in self.stages)

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds, *_ in self.stages)

    @property
    def lost_after(self) -> int | None:
        """How many of `STEPS` the gold answer reached without a gap: 4 is all."""
        return None if self.gold_in is None else (*self.gold_in, False).index(False)


def question_facts(run: Reported) -> list[Facts]:
    """A run's facts in the order of its rows."""
    return [_facts(run, row) for row in run.rows]


def _facts(run: Reported, row: Mapping[str, Any]) -> Facts:
    golds = row.get("answers")
    found = (row.get(run.retrieved) or []) if run.retrieved else []
    left = kept(row.get(run.evidence)) if run.evidence else []
    snippets = (row.get(run.snippets) or []) if run.snippets else []
    answer, prompt = row.get("answer"), row.get("final_prompt")
    has = _Holder(golds or ())
    sent = [item for item in left if prompt and item["text"].strip() in prompt]
    gold_in = (
        any(has(item["text"]) for item in found),
        any(has(item["text"]) for item in left),
        any(has(item["text"]) for item in sent),
        bool(answer) and has(str(answer)),
    )
    return Facts(
        documents=len({p["doc_id"] for p in found if p["doc_id"] is not None}) if run.retrieved else None,
        kept=len(left) if run.evidence else None,
        prompt_characters=len(prompt) if prompt is not None else None,
        gold_in=gold_in if golds and run.retrieved and run.evidence else None,
        cosines=[(s["score"], has(s["text"]) if golds else None) for s in snippets if s["score"] is not None],
        sentences=_sentences(answer or "", [item["text"] for item in left]),
        stages=[_stage(step) for step in row.get("trace") or []],
    )


def _sentences(answer: str, evidence: Sequence[str]) -> list[tuple[str, bool]]:
    """An abstention states nothing that evidence could support."""
    return [(answer, True)] if answer and abstained(answer) else judged_sentences(answer, evidence)


class _Holder:
    """Whether a text contains a gold answer; passages, snippets and evidence share texts, so each is read once."""

    def __init__(self, golds: Sequence[str]) -> None:
        self._golds, self._known = golds, dict[str, bool]()

    def __call__(self, text: str) -> bool:
        if text not in self._known:
            self._known[text] = bool(self._golds) and containment(text, self._golds) == 1
        return self._known[text]


def _stage(step: Mapping[str, Any]) -> tuple[str, float, int, int]:
    tokens = (step.get("prompt_tokens") or 0) + (step.get("generated_tokens") or 0)
    return step["stage"], step.get("seconds") or 0.0, step.get("calls") or 0, tokens
