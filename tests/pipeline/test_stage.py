"""The contract every registered stage keeps, whatever it does: rows, order, types, isolation."""

import pickle

import pyarrow as pa
import pytest
from pydantic import PrivateAttr

from pipeline.env import EngineError
from pipeline.schema import BASE, ERROR, ITEM, PASSAGE, SNIPPET, STRINGS, fits, one_of, type_name
from pipeline.stage import Stage
from pipeline.stages import STAGES
from tests.stubs import POISON, Dead, StubEnv, hit, questions, ready, snippet, timeless

SETTINGS = {
    "search": {"index": "plaid", "k": 2, "queries": ["question", "queries"], "into": "passages"},
    "write_queries": {"llm": "writer", "prompt": "research_queries", "n": 2, "context": "passages", "into": "queries"},
    "filter_snippets": {"embedder": "filter"},
    "fuse": {"lexical": "passages", "into": "fused", "embedder": "filter"},
    "guardrail": {
        "embedder": "filter",
        "system_prompt": "collection_assistant",
        "max_cosine": 1.0,
        "null_text": "No.",
    },
    "cut": {"from": "passages", "k": 1, "into": "passages"},
    "count_mentions": {
        "llm": "counter",
        "source": "passages",
        "prompt": "is_counting",
        "keyword_prompt": "count_keyword",
    },
    "explore": {
        "llm": "explorer",
        "source": "passages",
        "prompt": "keywords",
        "keywords": 3,
        "overlap": {"hits": 2, "neighbours": 1, "first_class": 1, "first_class_sentences": 3},
        "importance": {
            "form": "embedding",
            "embedder": "filter",
            "prompt": "passage_only",
            "samples": 1,
            "max_tokens": 9,
        },
        "judge": {"llm": "sufficiency_judge", "prompt": "enough"},
        "rounds": 2,
        "max_context": 500,
        "reserve": 50,
        "into": "found",
    },
    "vote": {"llm": "voter", "prompt": "report", "evidence": "passages", "max_words": 20, "voter_num": 3},
    "answer": {"llm": "answerer", "prompt": "report", "evidence": "passages", "max_words": 20},
    "answer_fid": {"reader": "reader", "prompt": "fid_input", "evidence": "passages"},
    "draft_passages": {"llm": "drafter", "prompt": "draft_passage", "n": 2},
    "merge_passages": {"from": ["passages", "passages"], "into": "merged"},
    "pair": {
        "generated": "passages",
        "how": "hungarian",
        "prompt": "pair",
        "scorer": "scorer",
        "joint_prompt": "question_from_passage",
    },
    "rerank": {"scorer": "reranker", "prompt": "useful_passage"},
    "score_passages": {
        "scorer": "scorer",
        "direction": "question_given_passage",
        "prompt": "question_from_passage",
    },
    "write_hypothetical": {"llm": "drafter", "prompt": "hypothetical_answer"},
}
COLUMNS = {
    "queries": STRINGS,
    "passages": pa.list_(PASSAGE),
    "snippets": pa.list_(SNIPPET),
    "answer": pa.string(),
}
NEVER_FAILS = {"cut", "merge_passages"}  # they ask nobody for anything


def build(name: str) -> Stage:
    stage = STAGES[name].model_validate(SETTINGS[name])
    stage.bind({**BASE, **COLUMNS})
    return ready(stage, StubEnv())


def table(*texts: str) -> pa.Table:
    return questions(
        *texts,
        queries=([[f"about {text}"] for text in texts], STRINGS),
        passages=([[hit(len(text), f"on {text}", query=text)] for text in texts], COLUMNS["passages"]),
        snippets=([[snippet(text)] for text in texts], COLUMNS["snippets"]),
        answer=([f"it is {text}" for text in texts], pa.string()),
    )


def values(result: pa.Table) -> list[dict]:
    """The rows without their timings."""
    return [timeless(row) for row in result.to_pylist()]


def test_every_stage_is_registered_under_its_name_and_tested() -> None:
    assert {name: stage.name for name, stage in STAGES.items()} == {name: name for name in SETTINGS}


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("texts", [(), ("one",), ("one", "three", "two2")])
def test_rows_order_and_types(name: str, texts: tuple[str, ...]) -> None:
    stage, before = build(name), table(*texts)
    after = stage(before)
    assert after["id"].to_pylist() == [f"q{n}" for n in range(len(texts))]
    assert after["question"].to_pylist() == list(texts)
    assert after["error"].to_pylist() == [None] * len(texts)
    for column, kind in {**BASE, **COLUMNS, **stage.writes()}.items():
        assert after.schema.field(column).type == kind
    assert set(after.column_names) == set(before.column_names) | set(stage.writes())
    for trace in after["trace"].to_pylist():
        assert [entry["stage"] for entry in trace] == [name]
        assert trace[0]["seconds"] >= 0
        assert trace[0]["kept"] is not None
        assert trace[0]["calls"] is not None


@pytest.mark.parametrize("name", STAGES)
def test_a_row_alone_and_among_others_comes_out_the_same(name: str) -> None:
    together = values(build(name)(table("one", "three", "two2")))
    apart = values(build(name)(table("one", "three", "two2").slice(1, 1)))
    assert apart == [together[1]]


@pytest.mark.parametrize("name", [name for name in STAGES if name not in NEVER_FAILS])
def test_a_poisoned_row_costs_only_itself(name: str) -> None:
    after = values(build(name)(table("one", POISON, "two2")))
    good = values(build(name)(table("one", "fine", "two2")))
    assert [after[0], after[2]] == [good[0], good[2]]
    assert after[1]["error"] == {"stage": name, "kind": "ValueError", "message": "the stub was poisoned"}
    assert after[1]["id"] == "q1"


@pytest.mark.parametrize("name", STAGES)
def test_a_failed_row_passes_through_untouched(name: str) -> None:
    stage, before = build(name), table("one", "three", "two2")
    failed = pa.array([None, {"stage": "earlier", "kind": "x", "message": "y"}, None], ERROR)
    before = before.set_column(before.column_names.index("error"), "error", failed)
    after = stage(before)
    row, old = after.to_pylist()[1], before.to_pylist()[1]
    assert {column: row[column] for column in old} == old
    assert all(row[column] is None for column in stage.writes() if column not in old)
    assert [len(trace) for trace in after["trace"].to_pylist()] == [1, 0, 1]


def test_all_rows_failed_still_gives_every_column() -> None:
    before = table("one")
    error = pa.array([{"stage": "earlier", "kind": "x", "message": "y"}], ERROR)
    after = build("answer")(before.set_column(before.column_names.index("error"), "error", error))
    assert after["final_prompt"].to_pylist() == [None]


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_survives_pickling_and_asks_only_for_what_it_declares(name: str) -> None:
    stage = STAGES[name].model_validate(SETTINGS[name])
    stage.bind({**BASE, **COLUMNS})
    env = StubEnv()
    worker = ready(pickle.loads(pickle.dumps(stage)), env)
    assert values(worker(table("one"))) == values(build(name)(table("one")))
    asked = {"divergence": "scorer"}  # a kind of scorer
    declared = {(asked.get(kind, kind), role) for role, kind in stage.models().items()} | {
        ("searcher", i) for i in stage.indexes()
    }
    assert set(env.asked) == declared


def test_a_dead_engine_ends_the_job() -> None:
    stage = STAGES["answer"].model_validate(SETTINGS["answer"])
    env = StubEnv()
    env.parts["llm"] = Dead()
    ready(stage, env)
    with pytest.raises(EngineError, match="died"):
        stage(table("one", "two"))


class Odd(Stage):
    """Returns whatever it is told to."""

    name = "odd"
    _out: dict = PrivateAttr(default_factory=dict)

    def reads(self) -> dict[str, pa.DataType]:
        return {}

    def writes(self) -> dict[str, pa.DataType]:
        return {"x": pa.int32()}

    def process(self, batch: pa.Table) -> dict[str, list]:
        return self._out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({}, "did not write ['x']"),
        ({"x": [1], "y": [1]}, "columns it does not declare: ['y']"),
        ({"x": [1, 2]}, "x has 2 values for 1 rows"),
        ({"x": ["one"]}, "x is not int32"),
        ({"x": [1], "trace": [{"kept": "many"}]}, "trace is not"),
        ({"x": [1], "error": ["bad"]}, "error is not error"),
    ],
)
def test_a_stage_that_breaks_its_word_is_told_so(out: dict, message: str) -> None:
    stage = Odd()
    stage._out = out
    (error,) = stage(questions("one"))["error"].to_pylist()
    assert error["kind"] == "TypeError"
    assert message in error["message"]


def test_a_column_may_change_its_type_even_where_a_row_has_failed() -> None:
    stage = Odd()
    stage._out = {"x": [7]}
    before = questions("one", "two", x=(["old", "old"], pa.string()))
    error = pa.array([{"stage": "earlier", "kind": "k", "message": "m"}, None], ERROR)
    after = stage(before.set_column(before.column_names.index("error"), "error", error))
    assert after["x"].to_pylist() == [None, 7]


def test_types_that_serve() -> None:
    passages, snippets, items = pa.list_(PASSAGE), pa.list_(SNIPPET), pa.list_(ITEM)
    scored = pa.list_(pa.struct([*PASSAGE.fields, ("bm25", pa.float32())]))
    assert fits(passages, passages)
    assert fits(scored, passages)
    assert fits(passages, items)
    assert fits(snippets, items)
    assert not fits(snippets, passages)
    assert not fits(passages, scored)
    assert not fits(pa.string(), STRINGS)
    assert fits(STRINGS, one_of(pa.string(), STRINGS))
    assert not fits(passages, one_of(pa.string(), STRINGS))
    assert not fits(pa.struct([("text", pa.int64())]), ITEM)
    assert type_name(one_of(pa.string(), STRINGS)) == "string or list<string>"
    assert type_name(items) == "list<passage or snippet>"
