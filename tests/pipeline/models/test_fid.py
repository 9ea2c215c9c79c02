"""Fusion-in-Decoder against an own loop of decoder steps, on a random T5 made here."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from pipeline.env import Reading, ReadRequest
from pipeline.errors import InputError
from pipeline.models.fid import FidReader
from pipeline.profile import ModelSpec
from tests.pipeline.models import tiny

QUESTIONS = [
    ("question who is a ? passage the river .", "question who is a ? passage one two three one city", "a"),
    ("question where ? passage b c",),
    (
        "what is the city of b ? passage c c c",
        "what is the city of b ? passage yes no yes no yes no . the river is a",
    ),
    ("c ?", "c ? the", "c ? the river", "c ? the river is one two three"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.t5(tmp_path_factory.mktemp("models") / "t5")


def reader(folder: Path, **settings: int) -> FidReader:
    return FidReader(ModelSpec(engine="fid", source=str(folder), dtype="float32", **settings))


def stepwise(folder: Path, inputs: tuple[str, ...], steps: int) -> list[int]:
    """Greedy: each input through the encoder by itself, states side by side, the decoder run whole at every step."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] + [1] for text in inputs]
    with torch.no_grad():
        states = torch.cat([model.encoder(torch.tensor([each])).last_hidden_state for each in ids], dim=1)
        written = [0]
        while len(written) <= steps and written[-1] != 1:
            hidden = model.decoder(torch.tensor([written]), encoder_hidden_states=states).last_hidden_state
            written.append(int(_scores(model, hidden)[0, -1].argmax()))
    return written[1:]


def _scores(model: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    if model.config.tie_word_embeddings:  # T5 scales where input and output embeddings are one
        hidden = hidden * model.config.d_model**-0.5
    return model.lm_head(hidden)


def requests(beams: int = 1) -> list[ReadRequest]:
    return [ReadRequest(inputs, 6, beams) for inputs in QUESTIONS]


def test_greedy_answers_are_those_of_the_loop(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    readings = reader(folder).read(requests())
    seen = set()
    for request, reading in zip(requests(), readings, strict=True):
        ids = stepwise(folder, request.inputs, 6)
        assert reading.text == tokenizer.decode(ids, skip_special_tokens=True).strip()
        assert reading.generated_tokens == len(ids)
        assert reading.finish_reason == ("stop" if ids[-1] == 1 else "length")
        assert reading.prompt_tokens == sum(len(text.split()) + 1 for text in request.inputs)
        assert reading.cut == 0
        seen.add(reading.text)
    assert len(seen) > 1  # the answers depend on what is read


@pytest.mark.parametrize("beams", [1, 3])
def test_neighbours_and_order_change_nothing(folder: Path, beams: int) -> None:
    together = reader(folder).read(requests(beams))
    assert reader(folder, batch_tokens=1).read(requests(beams)) == together
    assert reader(folder).read(requests(beams)[::-1])[::-1] == together


def test_requests_that_decode_differently_are_batched_apart(folder: Path) -> None:
    mixed = [ReadRequest(QUESTIONS[0], 1), ReadRequest(QUESTIONS[1], 6, 2), ReadRequest(QUESTIONS[0], 6)]
    model = reader(folder)
    assert model.read(mixed) == [model.read([request])[0] for request in mixed]
    assert model.read(mixed)[0].generated_tokens == 1


def test_the_passages_are_fused_and_not_read_alone(folder: Path) -> None:
    first, both = (reader(folder).read([ReadRequest(inputs, 6)])[0] for inputs in (QUESTIONS[3][:1], QUESTIONS[3]))
    assert stepwise(folder, QUESTIONS[3], 6) != stepwise(folder, QUESTIONS[3][:1], 6)
    assert first.text != both.text


def test_an_input_that_is_too_long_loses_its_end_and_is_counted(folder: Path) -> None:
    long = QUESTIONS[2]
    short = tuple(" ".join(text.split()[:9]) for text in long)
    cut = reader(folder, max_model_len=10).read([ReadRequest(long, 6)])[0]
    whole = reader(folder).read([ReadRequest(short, 6)])[0]
    assert cut == Reading(whole.text, whole.finish_reason, whole.prompt_tokens, whole.generated_tokens, cut=2)


def test_nothing_to_read(folder: Path) -> None:
    assert reader(folder).read([]) == []
    with pytest.raises(ValueError, match="a request without inputs"):
        reader(folder).read([ReadRequest((), 6)])


def test_another_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="engine fid wants one of t5, mt5, umt5, not a 'llama'"):
        reader(tiny.causal(tmp_path / "llama"))
