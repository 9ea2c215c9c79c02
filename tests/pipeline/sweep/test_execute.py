"""What variants share is run once: by counting the calls that reach the stubs."""

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.execute import run_local
from pipeline.scoring.run import read_run
from pipeline.sweep.config import Sweep
from pipeline.sweep.execute import run_variants
from tests.pipeline.sweep.sweeps import StubEngine, variants_of, write
from tests.stubs import StubEnv, StubLLM, timeless

THRESHOLDS = """
system: SYSTEM
vary: {filter_snippets.min_cosine: [0.2, 0.35, null]}
baseline: {filter_snippets.min_cosine: 0.35}
"""
FIRST, SECOND = ["search", "write_queries", "search"], ["filter_snippets", "answer"]


def chats(engine: StubEngine) -> int:
    return sum(len(batch) for batch in engine.env.parts["llm"].batches)


def plain(folder: Path) -> list[dict]:
    return [timeless(row) for row in read_run(folder)]


def test_stages_before_the_first_varied_key_run_once(tmp_path: Path) -> None:
    engine = StubEngine()
    folders = run_variants(variants_of(write(tmp_path, THRESHOLDS)), tmp_path / "out", engine, part_size=2)
    assert engine.ran == [FIRST, SECOND, SECOND, SECOND]
    assert list(folders) == ["min_cosine=0.2", "min_cosine=0.35", "min_cosine=off"]
    assert chats(engine) == 3 + 3 * 3  # three questions: queries once, answers for each threshold
    # 2 searches a part, 2 parts, once; without reuse it would be thrice that
    assert len(engine.env.parts["searcher"].requests) == 4


def test_a_variant_is_what_it_would_be_by_itself(tmp_path: Path) -> None:
    variants = variants_of(write(tmp_path, THRESHOLDS))
    folders = run_variants(variants, tmp_path / "out", StubEngine(), part_size=2)
    for one in variants:
        env = StubEnv(llm=StubLLM(lambda request: '["more"]'))
        ((_, alone),) = run_local(one.system.stages, env, [(0, one.questions)])
        assert plain(folders[one.variant.name]) == [timeless(row) for row in alone.to_pylist()]
        assert (folders[one.variant.name] / "answers.jsonl").exists()


def test_sharing_goes_as_deep_as_the_settings_agree(tmp_path: Path) -> None:
    sweep = """
    system: SYSTEM
    vary: {stages.3.k: [1, 2], answer.max_words: [50, 100]}
    baseline: {stages.3.k: 1, answer.max_words: 50}
    """
    engine = StubEngine()
    run_variants(variants_of(write(tmp_path, sweep)), tmp_path / "out", engine, part_size=8)
    once = [["search", "filter_snippets"], ["answer"], ["answer"]]
    assert engine.ran == [FIRST[:2], *once, *once]


def test_other_questions_and_other_models_share_nothing(tmp_path: Path) -> None:
    sweep = """
    system: SYSTEM
    variants:
      - {name: plain}
      - {name: typos, questions: typos}
      - {name: other model, set: {models.smollm2.dtype: float16}}
    baseline: plain
    """
    engine = StubEngine()
    folders = run_variants(variants_of(write(tmp_path, sweep)), tmp_path / "out", engine, part_size=8)
    assert engine.ran == [[*FIRST, *SECOND][:1], [*FIRST, *SECOND][1:], [*FIRST, *SECOND], [*FIRST, *SECOND][1:]]
    assert list(folders) == ["plain", "typos", "other-model"]
    asked = [row["question"] for row in read_run(folders["typos"])]
    assert asked != ["one", "three", "seven"]
    assert [row["id"] for row in read_run(folders["typos"])] == ["q0", "q1", "q2"]


def test_an_interrupted_sweep_continues_and_a_finished_one_does_nothing(tmp_path: Path) -> None:
    sweep = write(tmp_path, THRESHOLDS)
    first = StubEngine(fail_after=3)  # two parts of what is shared, one of the first variant
    with pytest.raises(KeyboardInterrupt):
        run_variants(variants_of(sweep), tmp_path / "out", first, part_size=2)
    second = StubEngine()
    folders = run_variants(variants_of(sweep), tmp_path / "out", second, part_size=2)
    assert second.ran == [SECOND, SECOND, SECOND]
    assert chats(second) == 3 * 3 - 2
    third = StubEngine()
    assert run_variants(variants_of(sweep), tmp_path / "out", third, part_size=2) == folders
    assert third.ran == []


def test_a_variant_that_is_added_later_uses_what_is_there(tmp_path: Path) -> None:
    run_variants(variants_of(write(tmp_path, THRESHOLDS)), tmp_path / "out", StubEngine(), part_size=8)
    engine = StubEngine()
    more = write(tmp_path, THRESHOLDS.replace("0.2,", "0.2, 0.5,"))
    run_variants(variants_of(more), tmp_path / "out", engine, part_size=8)
    assert engine.ran == [SECOND]


def test_two_equal_variants_are_refused(tmp_path: Path) -> None:
    sweep: Sweep = write(
        tmp_path, "system: SYSTEM\nvariants: [{name: a}, {name: b, set: {answer.max_words: 200}}]\nbaseline: a"
    )
    with pytest.raises(InputError, match="'a' and 'b' are the same system"):
        run_variants(variants_of(sweep), tmp_path / "out", StubEngine(), part_size=8)


def test_changed_settings_under_one_name_are_refused(tmp_path: Path) -> None:
    text = "system: SYSTEM\nvariants: [{name: a}, {name: b, set: {answer.max_words: 50}}]\nbaseline: a"
    run_variants(variants_of(write(tmp_path, text)), tmp_path / "out", StubEngine(), part_size=8)
    with pytest.raises(InputError, match="max_words was 50, now it is 60"):
        run_variants(
            variants_of(write(tmp_path, text.replace("50", "60"))), tmp_path / "out", StubEngine(), part_size=8
        )
