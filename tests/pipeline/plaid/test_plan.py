"""What a plan makes of a corpus: what is fingerprinted, what is left out, what does not fit."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.plaid.config import IndexConfig, SplitConfig, load_index_config
from pipeline.plaid.plan import Plan, check_out, freeze_plan, make_plan
from pipeline.profile import ModelSpec
from pipeline.storage import Home, open_home

SPEC = ModelSpec(engine="late-interaction", source="embedded:minilm-colbert")


def plan_of(corpus: Path, *sets: str) -> Plan:
    return make_plan(load_index_config("default", str(corpus), list(sets)), SPEC)


def held(tmp_path: Path, corpus: Path, *sets: str) -> Home:
    """A home that holds the corpus's plan."""
    home = open_home(tmp_path / "out")
    freeze_plan(plan_of(corpus, *sets), home)
    return home


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in "ab":
        rows = [{"id": f"{name}{n}", "text": "x", "title": "t", "head": "h", "address": "u"} for n in range(3)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("corpus.title=title", "corpus.title"),
        ("corpus.url=address", "corpus.url"),
        ("corpus.title_tokens=5", "corpus.title_tokens"),
        ("corpus.text=head", "corpus.text"),
        ("split.unit=sentences", "split.unit"),
        ("split.overlap=3", "split.overlap"),
    ],
)
def test_a_changed_setting_is_refused_and_named(tmp_path: Path, corpus: Path, change: str, key: str) -> None:
    out = held(tmp_path, corpus, "split.size=400")
    with pytest.raises(InputError, match=rf"{key} = .*, now it is"):
        check_out(plan_of(corpus, "split.size=400", change), out)


def test_a_moved_corpus_is_the_same_and_a_changed_file_is_not(tmp_path: Path, corpus: Path) -> None:
    out = held(tmp_path, corpus)
    shutil.move(corpus, tmp_path / "moved")
    check_out(plan_of(tmp_path / "moved"), out)
    with (tmp_path / "moved" / "b.jsonl").open("a") as file:
        file.write('{"id": "more", "text": "y"}\n')
    with pytest.raises(InputError, match=r"files\.b\.jsonl\."):
        check_out(plan_of(tmp_path / "moved"), out)


def test_other_rules_of_sentences_are_refused(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = ["split.unit=sentences", "split.size=400"]
    out = held(tmp_path, corpus, *sets)
    check_out(plan_of(corpus, *sets), out)
    monkeypatch.setattr("pipeline.plaid.plan.SENTENCES", 99)
    with pytest.raises(InputError, match=r"split\.unit_rules = 1, now it is 99"):
        check_out(plan_of(corpus, *sets), out)


def test_damaged_files_are_refused_or_listed(tmp_path: Path, corpus: Path) -> None:
    (corpus / "c.jsonl").write_text('{"id": "c", "te')
    with pytest.raises(InputError, match=r"c\.jsonl line 1 is not a JSON object .*set corpus\.on_bad_file=skip"):
        plan_of(corpus)
    plan = plan_of(corpus, "corpus.on_bad_file=skip")
    assert [Path(file.path).name for file in plan.bad_files] == ["c.jsonl"]
    assert plan.as_dict()["bad_files"][0]["reason"].startswith("line 1 is not a JSON object")
    out = held(tmp_path, corpus, "corpus.on_bad_file=skip")
    (corpus / "c.jsonl").write_text('{"id": "c", "text": "mended"}\n')
    with pytest.raises(InputError, match=r"files\.c\.jsonl"):
        check_out(plan_of(corpus, "corpus.on_bad_file=skip"), out)
    (corpus / "c.jsonl").unlink()
    check_out(plan_of(corpus), out)


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (["split.unit=sentences"], r"split\.size is 512 tokens, but .* reads 509 .*set split\.size=509 or smaller"),
        (["split.size=510"], r"split\.size is 510 tokens, but .* reads 509 of a passage \(doc_maxlen 512 less 3"),
        (["split.size=477", "corpus.title=title"], r"477 tokens and its title up to 33 .*set split\.size=476 or"),
        (["split.size=9", "corpus.title=title", "corpus.title_tokens=600"], r"set corpus\.title_tokens smaller"),
    ],
)
def test_what_the_model_would_not_read_is_refused(corpus: Path, sets: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        plan_of(corpus, *sets)


def test_what_fits_is_planned(corpus: Path) -> None:
    for sets in (
        ["split.unit=sentences", "split.size=509"],
        ["split.size=476", "corpus.title=title"],
        ["split.unit=characters", "split.size=100000"],
    ):
        assert [shard.documents for shard in plan_of(corpus, *sets).shards] == [6]


@pytest.mark.parametrize(
    ("given", "size", "overlap"),
    [
        ({}, 450, 0),
        ({"unit": "tokens", "size": None, "overlap": None}, 450, 0),
        ({"unit": "characters"}, 1000, 100),
        ({"unit": "characters", "size": 50}, 50, 0),
        ({"unit": "characters", "size": 50, "overlap": 9}, 50, 9),
        ({"unit": "sentences", "size": None}, 512, 0),
    ],
)
def test_sizes_that_are_not_given_are_the_units(given: dict[str, object], size: int, overlap: int) -> None:
    split = SplitConfig.model_validate(given)
    assert (split.size, split.overlap) == (size, overlap)


def test_titles_of_passages_in_characters_are_refused(corpus: Path) -> None:
    sets = ["corpus.title=title", "split.unit=characters"]
    with pytest.raises(InputError, match=r"corpus\.title needs split\.unit tokens or sentences"):
        load_index_config("default", str(corpus), sets)
    with pytest.raises(InputError, match="on_bad_file"):
        load_index_config("default", str(corpus), ["corpus.on_bad_file=warn"])
    with pytest.raises(InputError, match=r"split\.unit"):
        load_index_config("default", str(corpus), ["split.unit=words"])
    assert IndexConfig().corpus.on_bad_file == "error"


def test_other_versions_of_what_makes_vectors_are_refused_while_work_is_left(tmp_path: Path, corpus: Path) -> None:
    home, plan = held(tmp_path, corpus), plan_of(corpus)
    upgraded = replace(
        plan, fingerprint={**plan.fingerprint, "versions": {**plan.fingerprint["versions"], "torch": "9"}}
    )
    with pytest.raises(InputError, match=r"was begun with versions\.torch = .*, now it is '9'"):
        check_out(upgraded, home)
    home.write("MANIFEST.json", b"{}")
    check_out(upgraded, home)
