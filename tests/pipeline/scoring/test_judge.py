"""Reading a judge's replies; one retry; what stays unreadable is excluded and counted."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.env import ChatRequest, Completion
from pipeline.scoring.claims import Scaling
from pipeline.scoring.judge import Claim, Judge, Task, read_claims, read_grade, read_relation
from pipeline.scoring.judged import judge_rows
from pipeline.scoring.judgements import COUNTS, judged_run
from pipeline.scoring.score import score_rows
from tests.stubs import StubLLM, said


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        (
            "direct: The Nile is long.\nuseful: It is in Africa.",
            [("direct", "The Nile is long."), ("useful", "It is in Africa.")],
        ),
        ("Here you are:\n- **Direct**: A.\n2. USELESS - B", [("direct", "A."), ("useless", "B")]),
        ("None.", []),
        ("direct:", None),
        ("The answer is direct.", None),
        ("", None),
    ],
)
def test_read_claims(text: str, claims: list[tuple[str, str]] | None) -> None:
    assert read_claims(text) == claims


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("entailed", 1),
        ("**Entailed.**", 1),
        ("The text supports the claim.", 1),
        ("The claim is entailed by the text.", 1),
        ("neutral", 0),
        ("Neutral. The text does not mention the claim.", 0),
        ("Contradicted", -1),
        ("Relation: contradicted", -1),
        ("entailed, contradicted or neutral", None),
        ("Neutral. It does not support the claim.", None),
        ("not entailed", None),  # neutral or contradicted
        ("It doesn't contradict it", None),
        ("not neutral", None),
        ("does not directly support", None),
        ("cannot be entailed", None),
        ("fails to support", None),
        ("not at all entailed", None),
        ("The text gives no support", None),
        ("is never contradicted", None),
        ("Entailed: no", None),
        ("unsupported", None),
        ("non-entailment", None),
        ("maybe", None),
        ("The text does not directly support the claim.", None),
        ("It cannot be entailed", None),
        ("fails to support it", None),
        ("There is no support.", None),
        ("It is never contradicted", None),
        ("Neutral: Oslo is not mentioned.", None),
        ("", None),
    ],
)
def test_read_relation(text: str, relation: int | None) -> None:
    assert read_relation(text) == relation


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("8", 8),
        ("Score: 7.5/10", 7.5),
        ("10 out of 10", 10),
        ("10/10.", 10),
        ("0", 0),
        ("from 0 to 10", None),
        ("11", None),
        ("-3", None),
        ("good", None),
        ("7, because 3 of 5 facts agree", None),
        ("7. It does not name the year.", 7),
        ("0-10", None),
        ("1 \u2013 10", None),
        ("I'd say 7-8", None),
        ("Rating: 5/5", None),
        ("5 out of 5", None),
        ("10%", None),
        ("\u22123", None),
        ("not a 10", None),
        ("less than 5", None),
    ],
)
def test_read_grade(text: str, grade: float | None) -> None:
    assert read_grade(text) == grade


def test_an_unreadable_reply_is_asked_for_once_more_and_then_excluded() -> None:
    replies = {"first": iter(["eh", "entailed"]), "second": iter(["eh", "eh"]), "third": iter(["neutral"])}
    llm = StubLLM(lambda request: next(next(it for name, it in replies.items() if name in said(request))))
    judge = Judge(llm)
    tasks = [Task("judge_relation", {"text": name, "claim": "x"}) for name in replies]
    assert judge.ask(tasks) == [1, None, 0]
    assert (judge.calls, judge.retried, judge.unread) == (5, 2, 1)
    assert [len(batch) for batch in llm.batches] == [3, 2]
    first, again = llm.batches[0][0], llm.batches[1][0]
    assert (first.temperature, again.temperature) == (0.0, 0.7)
    assert first.seed != again.seed


def test_a_request_the_model_refuses_is_unreadable() -> None:
    refusal = Completion("", "", "error", error="too long")
    assert Judge(StubLLM(lambda request: refusal)).ask([Task("judge_relation", {"text": "a", "claim": "b"})]) == [None]


def scripted(request: ChatRequest) -> str:
    """A judge with opinions: claims are the sentences, `wrong` contradicts, a text entails what it contains."""
    text = said(request)
    if "Take this answer apart" in text:
        answer = text.split("Answer: ")[1].split("\n")[0]
        kinds = {"Oslo": "direct", "fjord": "useful", "weather": "useless"}
        lines = [
            f"{next((kind for word, kind in kinds.items() if word in part), 'useful')}: {part.strip()}."
            for part in answer.split(".")
            if part.strip()
        ]
        return "\n".join(lines)
    if "What does the text say" in text:
        source, claim = text.split("Claim: ")[0], text.split("Claim: ")[1].split("\n")[0].rstrip(".")
        if "mumble" in claim:
            return "hm"
        return "entailed" if claim in source else "contradicted" if "wrong" in source else "neutral"
    return "mumble" if "mumble" in text else "8" if "Reference" in text else "6"


def row(id: str, answer: str | None, golds: list[str] | None, *passages: str, **more: Any) -> dict[str, Any]:
    found = [{"pid": n, "doc_id": f"d{n}", "text": text, "score": 1.0, "url": None} for n, text in enumerate(passages)]
    return {
        "id": id,
        "question": "Capital?",
        "answer": answer,
        "answers": golds,
        "passages": found,
        "error": None,
        **more,
    }


GOLD = ["Oslo is the capital. It lies on a fjord"]
ROWS = [
    row("good", "Oslo is the capital. Nice weather.", GOLD, "Oslo is the capital.", "It is a fjord"),
    row("declined", "I don't know.", GOLD, "x"),
    row("failed", None, GOLD, "x", error={"stage": "answer", "kind": "k", "message": "m"}),
    row("no gold", "Oslo is the capital.", None, "wrong"),
    row("unread", "Oslo mumble.", GOLD, "Oslo"),
]


def test_rows_by_hand() -> None:
    judged = {line["id"]: line for line in judge_rows(ROWS, Judge(StubLLM(scripted))).to_pylist()}
    good = judged["good"]
    assert good["coverage"] == pytest.approx(0.7)  # direct entailed by the answer, useful neutral
    assert good["relatedness"] == 0.5  # one direct, one useless
    assert good["correctness"] == pytest.approx(2 * 2 * 0.7 * 0.5 / 1.2)
    assert good["faithfulness"] == 0.5
    assert (good["similarity"], good["groundedness"], good["excluded"]) == (8, 6, [])
    assert {(claim["of"], claim["kind"], claim["relation"]) for claim in good["claims"]} == {
        ("answer", "direct", 1),
        ("answer", "useless", 0),
        ("reference", "direct", 1),
        ("reference", "useful", 0),
    }
    declined, failed = judged["declined"], judged["failed"]
    assert (declined["correctness"], declined["faithfulness"], declined["groundedness"]) == (0, 0, None)
    assert (failed["correctness"], failed["similarity"], failed["groundedness"]) == (0, 0, 0)
    free = judged["no gold"]
    assert (free["correctness"], free["similarity"], free["faithfulness"], free["excluded"]) == (None, None, -1, [])
    unread = judged["unread"]
    assert set(unread["excluded"]) == {"faithfulness", "similarity", "groundedness"}
    assert unread["coverage"] == 0


def test_no_question_is_put_to_the_judge_where_the_outcome_is_known() -> None:
    llm = StubLLM(scripted)
    judge_rows(ROWS[1:3], Judge(llm))
    assert llm.batches == []


def test_claims_that_somebody_wrote_are_not_asked_for() -> None:
    references = {"good": [Claim("direct", "Oslo is the capital"), Claim("useless", "weather")]}
    llm = StubLLM(scripted)
    judged = judge_rows(ROWS[:1], Judge(llm), references=references).to_pylist()[0]
    assert judged["coverage"] == 1
    assert sum("Take this answer apart" in said(request) for batch in llm.batches for request in batch) == 1


def test_the_first_300_words_and_10_passages_are_read() -> None:
    llm = StubLLM(scripted)
    judge_rows([row("long", "Oslo " * 299 + "end. LATE", None, *[f"p{n}" for n in range(12)])], Judge(llm))
    texts = [said(request) for batch in llm.batches for request in batch]
    assert not any("LATE" in text for text in texts if "apart" in text)
    assert {n for n in range(12) if any(f"Text: p{n}\n" in text for text in texts)} == set(range(10))


def test_judged_scores_are_marked_and_state_what_was_excluded() -> None:
    table = score_rows(ROWS, judged=judge_rows(ROWS, Judge(StubLLM(scripted))), judge="tiny")
    lines = {line["metric"]: line for line in table.summary.to_pylist()}
    correct = lines["correctness (local judge)"]
    assert (correct["group"], correct["n"], correct["missing_gold"], correct["excluded"]) == ("local judge", 4, 1, 0)
    faithful = lines["faithfulness (local judge)"]
    assert (faithful["n"], faithful["excluded"], faithful["failed"], faithful["abstained"]) == (4, 1, 1, 1)
    assert faithful["interval"].endswith("local judge: tiny")
    assert "faithfulness (local judge)" in table.questions.column_names


def test_gold_that_claims_nothing_of_use_lacks_a_metric_and_no_reply() -> None:
    rows = [row("a", "Oslo is the capital.", GOLD, "Oslo"), row("b", "Oslo is the capital.", GOLD, "Oslo")]
    judged = judge_rows(rows, Judge(StubLLM(scripted)), references={"a": [Claim("useless", "Nice weather.")]})
    found = {line["id"]: line for line in judged.to_pylist()}
    assert (found["a"]["coverage"], found["a"]["correctness"], found["a"]["excluded"]) == (None, None, [])
    assert found["b"]["coverage"] == pytest.approx(0.7)
    lines = {line["metric"]: line for line in score_rows(rows, judged=judged).summary.to_pylist()}
    assert [lines["coverage (local judge)"][name] for name in ("n", "missing_gold", "excluded")] == [1, 1, 0]


def test_another_scaling_asks_nothing(tmp_path: Path) -> None:
    llm = StubLLM(scripted)
    told: list[str] = []

    def judged(scaling: Scaling) -> dict[str, float]:
        table = judged_run(tmp_path, ROWS, {"source": "x"}, lambda: Judge(llm), say=told.append, scaling=scaling)
        return dict(zip(table["id"].to_pylist(), table["correctness"].to_pylist(), strict=True))

    signed = judged("signed")
    asked = len(llm.batches)
    (kept,) = tmp_path.glob("judged/*/part-00000.parquet")
    assert json.loads(pq.read_schema(kept).metadata[COUNTS]) == {
        "calls": sum(map(len, llm.batches)),
        "asked again": 3,
        "unread": 3,
    }
    assert told[-1].endswith("3 asked again, 3 unread)")
    mean = 2 * 0.7 * 0.5 / 1.2
    assert signed["good"] == pytest.approx(2 * mean)
    assert judged("none")["good"] == pytest.approx(mean)
    assert judged("linear")["good"] == pytest.approx(1.5 * mean + 0.5)
    assert len(llm.batches) == asked
