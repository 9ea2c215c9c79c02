"""The encode step's threads: the same bytes whoever is slow, errors of each of them, seconds by phase."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.plaid import build, codec, passages
from pipeline.plaid.build import encode_step, open_codec
from pipeline.plaid.meter import Meter
from pipeline.plaid.plan import Plan, freeze_plan
from pipeline.storage import Home, open_home
from tests.pipeline.plaid.small_index import SPEC, StubEncoder, documents_of, hashes, plan_of, write_corpus

PIECES = 8  # of 3 passages


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(passages, "BATCH", 3)
    corpus = write_corpus(tmp_path / "corpus", documents_of(24))
    return plan_of(corpus, "shards.documents=24", "split.size=400", "codec.sample_memory_gib=0.001")


def home_with_codec(plan: Plan, place: Path) -> Home:
    from pipeline.models.resolve import resolve_model

    home = open_home(place)
    freeze_plan(plan, home)
    build.passages_step(plan, "00000", home, resolve_model(SPEC.source))
    build.codec_step(plan, home, StubEncoder())
    home.clean()  # what the sample has encoded
    return home


class SlowEncoder(StubEncoder):
    def __init__(self, tokenising: float, encoding: float) -> None:
        self.tokenising, self.encoding = tokenising, encoding
        self.threads: set[str] = set()

    def tokenise_documents(self, texts: Sequence[str]) -> Sequence[str]:
        time.sleep(self.tokenising)
        return texts

    def encode_tokens(self, tokens: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        time.sleep(self.encoding)
        self.threads.add(threading.current_thread().name)
        return super().encode_tokens(tokens)


@pytest.mark.parametrize(
    ("tokenising", "encoding", "compressing"), [(0, 0, 0), (0.05, 0, 0), (0, 0.05, 0), (0, 0, 0.05)]
)
@pytest.mark.parametrize("device", ["cpu", "cuda:7"])
def test_the_bytes_do_not_depend_on_who_is_slow(
    plan: Plan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tokenising: float,
    encoding: float,
    compressing: float,
    device: str,
) -> None:
    home = home_with_codec(plan, tmp_path / "index")
    folder = encode_step(plan, "00000", home, StubEncoder(), *open_codec(home, StubEncoder()))["folder"]
    expected = hashes(tmp_path / "index" / folder)
    home.forget("shards/00000")
    compress = codec.Codec.compress

    def slow(self: codec.Codec, vectors: np.ndarray, place: str = "cpu") -> tuple[np.ndarray, np.ndarray]:
        assert place == device
        time.sleep(compressing)
        return compress(self, vectors)

    monkeypatch.setattr(codec.Codec, "compress", slow)
    encoder = SlowEncoder(tokenising, encoding)
    encoder.device = device
    again = encode_step(plan, "00000", home, encoder, *open_codec(home, encoder))["folder"]
    assert hashes(tmp_path / "index" / again) == expected
    assert encoder.threads == {"ahead"}


def test_tokenising_and_compressing_hide_behind_the_forward_pass(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_with_codec(plan, tmp_path / "index")
    compress = codec.Codec.compress

    def slow(self: codec.Codec, vectors: np.ndarray, _: str = "cpu") -> tuple[np.ndarray, np.ndarray]:
        time.sleep(0.1)
        return compress(self, vectors)

    monkeypatch.setattr(codec.Codec, "compress", slow)
    encoder, meter = SlowEncoder(0.1, 0.1), Meter()
    encoder.device = "cuda"  # on a CPU the forward pass and compression take turns
    started = time.perf_counter()
    encode_step(plan, "00000", home, encoder, *open_codec(home, encoder), meter=meter)
    wall = time.perf_counter() - started
    meter.save(home, "shards", "00000")
    phases = home.json("timings/shards/00000.json")["phases"]
    assert set(phases) == {"read", "tokenise", "forward", "compress", "write", "verify", "commit"}
    assert min(phases["tokenise"], phases["forward"], phases["compress"]) >= 0.1 * PIECES
    assert wall < 0.75 * sum(phases.values())


@pytest.mark.parametrize("where", ["tokenise_documents", "encode_tokens"])
def test_an_error_of_any_thread_ends_the_step(plan: Plan, tmp_path: Path, where: str) -> None:
    home = home_with_codec(plan, tmp_path / "index")
    encoder, calls = StubEncoder(), []
    real = getattr(encoder, where)

    def fails(given: Sequence[str]) -> object:
        calls.append(1)
        if len(calls) == 4:
            raise InputError("passage 7 is too long")
        return real(given)

    setattr(encoder, where, fails)
    with pytest.raises(InputError, match="passage 7 is too long"):
        encode_step(plan, "00000", home, encoder, *open_codec(home, encoder))
    assert home.committed("shards/00000") is None
    assert not list((tmp_path / "index" / "attempts").iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name == "ahead"]


def test_an_error_of_the_writer_ends_the_others(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = home_with_codec(plan, tmp_path / "index")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipeline.plaid.shard.save_tensor", full)
    with pytest.raises(OSError, match="No space left"):
        encode_step(plan, "00000", home, StubEncoder(), *open_codec(home, StubEncoder()))
    assert not [thread for thread in threading.enumerate() if thread.name == "ahead"]
