"""Growing and shrinking a finished index: new shards under the same codec, drops, generations of the manifest, old
readers. Real splitting, codec, shards and BM25; a stub encoder."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.env import SearchRequest
from pipeline.errors import InputError, UnfinishedError
from pipeline.plaid.growth import freeze_addition, open_plan
from pipeline.plaid.index import LocalSearcher
from pipeline.plaid.manifest import latest, put, read_manifest
from pipeline.plaid.plan import freeze_plan
from pipeline.plaid.publish import check_drop, collection, publish_step
from pipeline.profile import ModelSpec
from pipeline.storage import Home, open_home
from tests.pipeline.plaid.small_index import (
    SPEC,
    StubEncoder,
    build_bm25,
    build_index,
    build_shards,
    documents_of,
    hashes,
    plan_of,
    write_corpus,
)

ALL = documents_of(20)


def query(number: int) -> str:
    return f"word{number}x1 word{number}x2 word{number}x3"


def best(out: Path, number: int, method: str = "plaid") -> str | None:
    searcher = LocalSearcher(out, StubEncoder(), ["plaid", "bm25"])
    (hits,) = searcher.search(SearchRequest([query(number)], 1, method=method))  # type: ignore[arg-type]
    return hits[0]["doc_id"] if hits else None


@pytest.fixture
def out(tmp_path: Path) -> Path:
    build_index(plan_of(write_corpus(tmp_path / "corpus", ALL[:12])), tmp_path / "index")
    write_corpus(tmp_path / "more", ALL[12:])
    for path in sorted((tmp_path / "more").iterdir()):
        path.rename(path.with_name(path.name.replace("part", "more")))
    return tmp_path / "index"


def add(out: Path, pattern: Path, encoder: StubEncoder = StubEncoder()) -> dict:
    plan, names = freeze_addition(open_home(out), str(pattern), SPEC)
    return build_shards(plan, names, open_home(out), encoder)


def drop(out: Path, *names: str) -> dict:
    home = open_home(out)
    check_drop(home, names)
    plan, wanted = open_plan(home), collection([], home, names)
    build_bm25(plan, wanted, home)
    return publish_step(plan, wanted, home, drop=names)


def test_added_documents_are_found_and_the_old_shards_stay(out: Path, tmp_path: Path) -> None:
    before = hashes(out)
    manifest = add(out, tmp_path / "more")
    assert [shard["shard"] for shard in manifest["shards"]] == ["00000", "00001", "00002", "00003", "00004"]
    assert manifest["documents"] == 20
    assert manifest["generation"] == 2
    for number in range(20):
        assert best(out, number) == best(out, number, "bm25") == f"d{number}"
    changed = {name for name, digest in before.items() if hashes(out).get(name) != digest}
    assert changed == {"MANIFEST.json"}


def test_bm25_of_a_grown_index_equals_that_of_one_built_at_once(out: Path, tmp_path: Path) -> None:
    add(out, tmp_path / "more")
    shutil.copytree(tmp_path / "corpus", tmp_path / "both")
    for path in (tmp_path / "more").iterdir():
        shutil.copy(path, tmp_path / "both" / f"z{path.name}")
    build_index(plan_of(tmp_path / "both"), tmp_path / "whole")
    request = SearchRequest([query(3), query(15), "word1x1 word19x3"], 10, method="bm25")
    grown = LocalSearcher(out, None, ["bm25"]).search(request)
    whole = LocalSearcher(tmp_path / "whole", None, ["bm25"]).search(request)
    assert [[(hit["doc_id"], hit["score"]) for hit in hits] for hits in grown] == [
        [(hit["doc_id"], hit["score"]) for hit in hits] for hits in whole
    ]


def test_the_same_addition_again_is_done_already(out: Path, tmp_path: Path) -> None:
    manifest = add(out, tmp_path / "more")

    class Broken(StubEncoder):
        def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            raise AssertionError("encoded again")

    assert add(out, tmp_path / "more", Broken()) == manifest


def test_an_addition_killed_midway_is_continued_to_the_same_bytes(out: Path, tmp_path: Path) -> None:
    shutil.copytree(out, tmp_path / "whole")
    add(tmp_path / "whole", tmp_path / "more")

    class Dies(StubEncoder):
        left = 1

        def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().encode_documents(texts)

    with pytest.raises(KeyboardInterrupt):
        add(out, tmp_path / "more", Dies())
    assert best(out, 3) == "d3"  # readers see the index as it was
    assert best(out, 15) != "d15"
    with pytest.raises(InputError, match=r"adding .*more-000\.parquet.* is not finished \(shard 00003\)"):
        freeze_addition(open_home(out), str(tmp_path / "more" / "more-000.parquet"), SPEC)
    add(out, tmp_path / "more")
    assert hashes(out) == hashes(tmp_path / "whole")


def test_what_cannot_be_added_is_named(out: Path, tmp_path: Path) -> None:
    home = open_home(out)
    with pytest.raises(InputError, match=r"holds part-000\.parquet .* already"):
        freeze_addition(home, str(tmp_path / "corpus"), SPEC)
    (tmp_path / "renamed").mkdir()
    shutil.copy(tmp_path / "corpus" / "part-005.parquet", tmp_path / "renamed" / "new.parquet")
    with pytest.raises(InputError, match=r"holds new\.parquet .* already, called part-005\.parquet; leave it out"):
        freeze_addition(home, str(tmp_path / "renamed"), SPEC)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    other = ModelSpec(engine="late-interaction", source=str(tmp_path / "model"))
    with pytest.raises(InputError, match="was built with the checkpoint embedded:minilm-colbert"):
        freeze_addition(home, str(tmp_path / "more"), other)
    with pytest.raises(InputError, match="no such index"):
        freeze_addition(open_home(tmp_path / "nowhere"), str(tmp_path / "more"), SPEC)
    freeze_plan(plan_of(tmp_path / "corpus"), open_home(tmp_path / "begun"))
    with pytest.raises(InputError, match="is not finished"):
        freeze_addition(open_home(tmp_path / "begun"), str(tmp_path / "more"), SPEC)
    assert home.entries("additions") == []


def test_a_dropped_shard_is_not_found_and_the_others_keep_their_pids(out: Path) -> None:
    reader = LocalSearcher(out, StubEncoder())
    request = SearchRequest([query(number) for number in range(12)], 1)
    before = reader.search(request)
    manifest = drop(out, "00001")
    assert manifest["dropped"] == ["00001"]
    assert manifest["documents"] == 8
    after = LocalSearcher(out, StubEncoder()).search(request)
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if 4 <= number < 8:
            assert new[0]["doc_id"] != f"d{number}"
        else:
            assert new == old
    assert best(out, 5, "bm25") is None
    assert best(out, 9, "bm25") == "d9"
    assert reader.search(request) == before  # an old reader is unharmed
    assert drop(out, "00001") == manifest  # and again is fine


def test_a_build_run_again_after_a_drop_changes_nothing(out: Path, tmp_path: Path) -> None:
    manifest = drop(out, "00001")
    assert build_index(plan_of(tmp_path / "corpus"), out) == manifest


def test_pids_are_never_given_twice(out: Path, tmp_path: Path) -> None:
    old = read_manifest(out)
    drop(out, "00002")
    manifest = add(out, tmp_path / "more")
    assert [shard["pid_offset"] for shard in manifest["shards"]][:2] == [s["pid_offset"] for s in old.shards[:2]]
    assert manifest["shards"][2]["pid_offset"] == old.passages
    assert best(out, 15) == "d15"
    assert best(out, 9) != "d9"


@pytest.mark.parametrize(
    ("names", "said"),
    [(["00009"], "has no shard 00009; its shards are 00000, 00001, 00002"), (["00000", "00001", "00002"], "no shard")],
)
def test_what_cannot_be_dropped_is_named(out: Path, names: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_drop(open_home(out), names)


def test_an_index_without_a_shard_that_failed_says_so_and_is_completed_later(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", ALL[:12])
    build_index(plan_of(corpus), tmp_path / "whole")
    plan, home = plan_of(corpus), open_home(tmp_path / "index")
    build_index(plan, home)
    home.forget("shards/00001")
    for entry in home.entries("manifests"):
        home.remove(f"manifests/{entry}")
    home.remove("MANIFEST.json")
    wanted = plan.names()
    with pytest.raises(UnfinishedError, match=r"shard 00001: boom"):
        publish_step(plan, wanted, home, {"00001": "boom"})
    build_bm25(plan, ["00000", "00002"], home)
    manifest = publish_step(plan, wanted, home, {"00001": "boom"}, partial=True)
    assert manifest["missing"] == [{"shard": "00001", "documents": 4, "reason": "boom"}]
    assert home.json("report.json")["missing"] == manifest["missing"]
    assert read_manifest(home).shard_names() == ["00000", "00002"]
    assert best(tmp_path / "index", 9) == "d9"
    whole = build_index(plan, home)
    assert whole["missing"] == []
    assert whole["generation"] == 2
    assert [best(tmp_path / "index", number) for number in range(12)] == [f"d{number}" for number in range(12)]


def test_of_two_commands_that_change_an_index_at_once_one_is_told(out: Path) -> None:
    home = open_home(out)
    values = latest(home)
    assert values is not None
    put(home, {**values, "generation": 2, "dropped": ["00000"]})
    with pytest.raises(UnfinishedError, match="was changed by another command meanwhile"):
        put(home, {**values, "generation": 2, "dropped": ["00001"]})
    assert read_manifest(home).dropped == ["00000"]


def test_a_manifest_that_lags_behind_is_brought_up(out: Path) -> None:
    """A command killed between its generation's creation and the copy to MANIFEST.json."""
    home = open_home(out)
    old = (out / "MANIFEST.json").read_text()
    drop(out, "00001")
    (out / "MANIFEST.json").write_text(old)
    assert json.loads(old)["generation"] == 1
    held = latest(home)
    assert held is not None
    assert held["generation"] == read_manifest(home).generation == 2


def test_a_plan_read_back_is_the_plan(tmp_path: Path) -> None:
    plan = plan_of(write_corpus(tmp_path / "corpus", ALL[:12]))
    home: Home = open_home(tmp_path / "index")
    freeze_plan(plan, home)
    assert open_plan(home) == replace(plan, config=open_plan(home).config)
    assert open_plan(home).config == plan.config
