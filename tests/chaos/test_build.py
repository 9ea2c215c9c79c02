"""Real SIGKILLs in the middle of a build over Ray: run again, the index has the bytes of an undisturbed one; what
cannot be built is named. The quick kills run always."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.plaid.index import LocalSearcher
from pipeline.storage import open_home
from tests.chaos.build import BAD, POISON
from tests.chaos.processes import Driver, driver, there
from tests.pipeline.plaid.small_index import StubEncoder, documents_of, hashes, write_corpus

SHARDS = 8
BUILD = "tests.chaos.build"
BOUNDARIES = {  # the moment after which the driver is killed
    "plan": "plan.json",
    "first passages": "commit/passages/*.json",
    "postings": "commit/lexical/*.json",
    "codec": "commit/codec.json",
    "first shard": "commit/shards/*.json",
    "statistics": "commit/statistics/*.json",
    "weights": "commit/weights/*/*.json",
    "report": "report.json",
    "generation": "manifests/*.json",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("chaos") / "corpus", documents_of(3 * SHARDS))


@pytest.fixture(scope="module")
def undisturbed(corpus: Path) -> dict[str, str]:
    out = corpus.parent / "undisturbed"
    with driver(BUILD, corpus, out) as build:
        build.succeed()
    return hashes(out)


def kill_driver(corpus: Path, out: Path, moment: Callable[[Driver], bool]) -> bool:
    """False where the build was done before the moment came."""
    with driver(BUILD, corpus, out) as build:
        if not moment(build):
            build.succeed()
            return False
        build.kill()
    return True


def complete(corpus: Path, out: Path, undisturbed: dict[str, str]) -> None:
    with driver(BUILD, corpus, out) as build:
        build.succeed()
    assert hashes(out) == undisturbed
    assert not list(out.glob("attempts/*"))


@pytest.mark.parametrize("boundary", ["first shard"])
def test_a_driver_killed(corpus: Path, undisturbed: dict[str, str], tmp_path: Path, boundary: str) -> None:
    out = tmp_path / "index"
    assert kill_driver(corpus, out, lambda build: build.wait_for(there(out, BOUNDARIES[boundary])))
    complete(corpus, out, undisturbed)


@pytest.mark.slow
def test_a_worker_killed_in_each_of_two_steps(corpus: Path, undisturbed: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "index"
    with driver(BUILD, corpus, out) as build:
        killed = [build.wait_for(lambda: there(out, "plan.json")() and build.kill_worker("MapBatches"))]
        assert build.wait_for(there(out, "commit/shards/*.json"))
        killed.append(build.wait_for(lambda: build.kill_worker("MapWorker")))
        build.succeed()
    assert killed == [True, True]
    assert hashes(out) == undisturbed


@pytest.mark.slow
def test_a_driver_killed_at_every_boundary_in_turn(corpus: Path, undisturbed: dict[str, str], tmp_path: Path) -> None:
    out, kills = tmp_path / "index", 0
    for boundary in BOUNDARIES.values():
        kills += kill_driver(corpus, out, lambda build, path=boundary: build.wait_for(there(out, path)))
    assert kills >= 8  # the last moments are short
    complete(corpus, out, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_driver_killed_at_random(corpus: Path, undisturbed: dict[str, str], tmp_path: Path, seed: int) -> None:
    out, chance, kills = tmp_path / "index", random.Random(seed), 0
    while kills < 6:
        # The n-th commit of any kind is a moment like any other; Ray's start is not waited through.
        moment = there(out, "commit/**/*.json", len(list(out.glob("commit/**/*.json"))) + chance.randrange(1, 6))
        if not kill_driver(corpus, out, lambda build, moment=moment: build.wait_for(moment)):
            break
        kills += 1
    assert kills >= 4
    complete(corpus, out, undisturbed)


@pytest.mark.slow
def test_many_workers_killed_in_one_build(corpus: Path, undisturbed: dict[str, str], tmp_path: Path) -> None:
    out, kills = tmp_path / "index", 0
    steps = ("commit/passages/*.json", "commit/lexical/*.json", "commit/shards/*.json", "commit/weights/*/*.json")
    with driver(BUILD, corpus, out) as build:
        for step in steps:
            for count in (1, 3):
                if build.wait_for(there(out, step, count)):
                    kills += build.kill_worker("MapBatches")
        build.succeed()
    assert kills >= 4
    assert hashes(out) == undisturbed


@pytest.mark.slow
def test_two_drivers_at_once_do_no_harm(corpus: Path, undisturbed: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "index"
    with driver(BUILD, corpus, out) as one, driver(BUILD, corpus, out) as other:
        one.succeed()
        other.succeed()
    assert hashes(out) == undisturbed


def poisoned(folder: Path, word: str) -> Path:
    documents = documents_of(3 * SHARDS)
    documents[7]["text"] += f" {word}"
    return write_corpus(folder, documents)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        pytest.param(POISON, "its worker died 3 times", marks=pytest.mark.slow),
        pytest.param(BAD, "ValueError: this text explodes", marks=pytest.mark.slow),
    ],
)
def test_a_poison_shard_is_named_and_the_rest_finishes(tmp_path: Path, word: str, reason: str) -> None:
    # The codec's sample must not hold the poison: another corpus gives the codec and the passages.
    corpus, out = poisoned(tmp_path / "corpus", word), tmp_path / "index"
    with driver("tests.chaos.clean_sample", corpus, out) as build:
        build.succeed()
    with driver(BUILD, corpus, out) as build:
        code, said = build.finish()
    assert code == 1
    assert f"shard 00002: {reason}" in said
    assert "documents 1 to 3 of part-005.parquet" in said
    assert "1 of 8 shards failed" in said
    assert open_home(out).done("shards") == {f"{number:05}" for number in range(SHARDS)} - {"00002"}
    assert not (out / "MANIFEST.json").exists()
    with driver(BUILD, corpus, out, "--allow-missing") as build:
        build.succeed()
    manifest = open_home(out).json("MANIFEST.json")
    assert [shard["shard"] for shard in manifest["missing"]] == ["00002"]
    assert reason in manifest["missing"][0]["reason"]
    assert manifest["documents"] == 3 * (SHARDS - 1)
    assert LocalSearcher(out, StubEncoder(), ["plaid", "bm25"])


def test_a_truncated_chunk_is_found_and_made_again(corpus: Path, undisturbed: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "index"
    shutil.copytree(corpus.parent / "undisturbed", out)
    path = sorted(out.glob("shards/00003-*/0.residuals.pt"))[0]
    path.write_bytes(path.read_bytes()[:-100])
    complete(corpus, out, undisturbed)


@pytest.mark.slow
def test_a_shard_that_cannot_be_written_is_named(corpus: Path, tmp_path: Path) -> None:
    """A file where the shards' folder should be: like a read-only folder, but for root, too."""
    out = tmp_path / "index"
    out.mkdir()
    (out / "shards").write_text("in the way")
    with driver(BUILD, corpus, out) as build:
        code, said = build.finish()
    assert code == 1
    assert "shard 00000: " in said
    assert "8 of 8 shards failed" in said
