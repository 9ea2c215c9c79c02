from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.compose import load_profile
from pipeline.errors import InputError
from pipeline.profile import ModelSpec

URL = "http://localhost:8000/v1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"engine": "openai"}, "engine openai wants base_url, such as"),
        ({"engine": "openai", "base_url": "localhost:8000"}, "engine openai wants base_url, such as"),
        ({"engine": "openai", "base_url": "http://me:hush@host/v1"}, "holds a password or a query"),
        ({"engine": "openai", "base_url": URL + "?key=hush"}, "holds a password or a query"),
        ({"engine": "openai", "base_url": URL, "api_key_env": "sk-hush"}, "never the key itself"),
        ({"engine": "vllm", "base_url": URL}, "are for engine openai, and this model's is vllm"),
        ({"engine": "vllm", "min_replicas": 3, "replicas": 2}, "min_replicas is 3 and replicas only 2"),
        ({"engine": "vllm", "tensor_parallel": 2, "gpus": 1}, "with as many gpus"),
        ({"engine": "transformers", "tensor_parallel": 2}, "tensor_parallel is for engine vllm"),
        ({"engine": "vllm", "engine_options": {"tensor_parallel_size": 2}}, "is the setting tensor_parallel here"),
    ],
)
def test_settings_that_do_not_fit_together(given: dict[str, Any], said: str, tmp_path: Any) -> None:
    with pytest.raises(ValidationError, match=said):
        ModelSpec(source="x", **given)
    lines = "".join(f"    {key}: {value!r}\n" for key, value in {"source": "x", **given}.items())
    (tmp_path / "p.yaml").write_text(f"models:\n  m:\n{lines}roles: {{answerer: m}}\n")
    with pytest.raises(InputError, match=rf"^p.yaml: models\.m: .*{said}") as caught:
        load_profile(tmp_path / "p.yaml")
    assert "hush" not in str(caught.value)


def test_a_model_over_two_gpus_holds_two() -> None:
    assert ModelSpec(engine="vllm", source="x", tensor_parallel=2).gpus == 2
    assert ModelSpec(engine="vllm", source="x", gpus=0.25).gpus == 0.25


def test_a_local_model_is_swapped_for_transformers_by_one_setting() -> None:
    profile = load_profile("embedded", ["models.smollm2.engine=transformers"])
    assert {"llm", "scorer"} <= set(profile.model("answerer").kinds)
