"""Embedded models: prepared once, verified, rebuilt when damaged, safe for two processes at once."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.models import embedded
from pipeline.models.embedded import NAMES, RECORD, damage, prepare


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARTAN_CACHE", str(tmp_path))
    return tmp_path / "models"


def test_two_processes_prepare_one_folder(cache: Path) -> None:
    code = (
        "from pipeline.models.embedded import prepare; folder = prepare('minilm-colbert', verify=True); "
        "print(folder, (folder / 'model.safetensors').stat().st_ino)"
    )
    environment = {**os.environ, "TARTAN_CACHE": str(cache.parent)}
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0] == outputs[1], "both must see the one build"
    assert outputs[0].startswith(str(cache / "minilm-colbert"))
    assert sorted(entry.name for entry in cache.iterdir()) == [".minilm-colbert.lock", "minilm-colbert"]

    folder = cache / "minilm-colbert"
    assert damage(folder, verify=True) == ""
    metadata = json.loads((folder / "artifact.metadata").read_text())
    assert (metadata["dim"], metadata["doc_maxlen"], metadata["query_maxlen"]) == (384, 512, 32)


def test_a_damaged_folder_is_rebuilt_and_said(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = prepare("minilm")
    assert prepare("minilm", verify=True) == folder
    weights = folder / "model.safetensors"
    intact = weights.read_bytes()

    weights.write_bytes(intact[:1000])
    with caplog.at_level(logging.WARNING):
        assert prepare("minilm") == folder
    assert "model.safetensors has 1000 bytes instead of" in caplog.text
    assert weights.read_bytes() == intact

    flipped = bytearray(intact)
    flipped[-1] ^= 1
    weights.write_bytes(flipped)
    assert damage(folder) == "", "sizes alone do not tell"
    assert "sha256" in damage(folder, verify=True)
    prepare("minilm", verify=True)
    assert weights.read_bytes() == intact

    (folder / RECORD).unlink()
    assert RECORD in damage(folder)
    prepare("minilm")
    assert damage(folder, verify=True) == ""


def test_a_failed_build_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        raise OSError("disk full")

    monkeypatch.setitem(embedded._BUILDERS, "minilm", half)
    with pytest.raises(OSError, match="disk full"):
        prepare("minilm")
    assert [entry.name for entry in cache.iterdir()] == [".minilm.lock"]


def test_wrong_names_and_missing_packages_are_input_errors(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"'embedded:bert'.*" + NAMES[0]):
        prepare("bert")
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    for name in NAMES:
        with pytest.raises(InputError, match=r"pip install 'tartan\[embedded\]'"):
            prepare(name)


def test_smollm2_is_a_working_chat_model() -> None:
    """In the machine's own cache, which the demo uses, too: the conversion takes the better part of a minute."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = prepare("smollm2-135m-instruct")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    answer = tokenizer.decode(output[0][inputs["input_ids"].shape[1] :])
    assert "Paris" in answer
    assert answer.endswith("<|im_end|>"), "the model must know where to stop"
    assert str(model.dtype) == "torch.bfloat16"
    assert tokenizer.model_max_length == 8192
    assert tokenizer.tokenize("  12") == ["ĠĠ", "1", "2"]
