"""`--set` options and profiles: what they change, and what is said where they cannot."""

from pathlib import Path

import pytest

from pipeline.compose import load_profile, load_system
from pipeline.errors import InputError
from pipeline.profile import config_file
from pipeline.settings import split_sets
from tests.stubs import says


def refused(*sets: str) -> str:
    with pytest.raises(InputError) as caught:
        load_system("hltcoe", sets=sets)
    return str(caught.value)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("search.k=5", "2 stages are called 'search'. Set stages.1.k or stages.3.k."),
        (
            "serch.k=5",
            "no stage is called 'serch'. Stages here: 1 search, 2 write_queries, 3 search, 4 filter_snippets, 5 a",
        ),
        ("cut.k=5", "no stage is called 'cut'. Stages here: "),
        ("stages.6.k=5", "no stage 6. Stages here: 1 search, "),
        ("stages.x.k=5", "no stage x. Stages here: 1 search, "),
        ("answer.max_word=5", "unknown key 'max_word'. Keys here: llm, prompt, …Did you mean 'max_words'?"),
        ("answer=5", "wants a key of the stage too, such as answer.llm=..."),
        ("stages.3=5", "no stage is called 'stages'. Stages here: "),
        ("answer.max_words.x=5", "'max_words' is 200 and has no keys of its own."),
    ],
)
def test_sets_that_hit_nothing(option: str, message: str) -> None:
    assert says(refused(option), f"hltcoe.yaml, --set {option}: {message}")


@pytest.mark.parametrize("option", ["answer.max_words", "=3", "answer.=3", ""])
def test_sets_without_key_or_value(option: str) -> None:
    assert f"--set {option}: wants KEY=VALUE" in refused(option)


def test_a_set_value_is_yaml_and_is_checked_like_the_file() -> None:
    assert "the value is not YAML" in refused("answer.max_words=[")
    assert refused("answer.max_words=many") == (
        "hltcoe.yaml, stage 5 (answer): key 'max_words' should be a valid integer, not 'many'."
    )
    system = load_system("hltcoe", sets=["stages.3.queries=[queries]", "answer.abstain_text=a=b", "stages.3.ncells=4"])
    assert system.resolved["stages"][2]["search"]["queries"] == ["queries"]
    assert system.resolved["stages"][2]["search"]["ncells"] == 4
    assert system.resolved["stages"][4]["answer"]["abstain_text"] == "a=b"


def test_sets_of_the_profile_are_told_apart() -> None:
    options = ["answer.max_words=3", "models.smollm2.cpus=1", "stages.1.k=2", "roles.answerer=x", "search_workers=1"]
    assert split_sets(options) == ([options[0], options[2]], [options[1], options[3], options[4]])


def test_profiles() -> None:
    embedded, paper = load_profile("embedded"), load_profile(config_file("profiles", "paper"))
    assert (embedded.name, paper.name) == ("embedded", "paper")
    assert embedded.model("answerer") is embedded.model("query_writer")
    assert paper.model("query_writer").source == "Qwen/Qwen2.5-7B-Instruct"
    assert all(spec.gpus == 1 and spec.revision for spec in paper.models.values())
    sets = [
        "models.smollm2.cpus=1.5",
        "models.smollm2.engine_options.seed=7",
        "search_workers=3",
        "roles.query_writer=smollm2",
    ]
    changed = load_profile("embedded", sets)
    assert (changed.model("answerer").cpus, changed.search_workers) == (1.5, 3)
    assert changed.model("answerer").engine_options == {"seed": 7}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("model.smollm2.cpus=1", "unknown key 'model'. Keys here: name, models, roles, …Did you mean 'models'?"),
        ("models.smollm.cpus=1", "unknown key 'models.smollm'. Keys here: minilm-colbert, …Did you mean 'smollm2'?"),
        ("models.smollm2.cpu=1", "unknown key 'models.smollm2.cpu'. Keys here: engine, source, …Did you mean 'cpus'?"),
        ("roles.answrer=smollm2", "unknown key 'roles.answrer'. Keys here: retriever, …Did you mean 'answerer'?"),
    ],
)
def test_profile_sets_that_hit_nothing(option: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_profile("embedded", [option])
    assert says(str(caught.value), f"embedded.yaml, --set {option}: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "models: {m: {engine: vlm, source: x}}\nroles: {}",
            "p.yaml: key 'models.m.engine' should be 'late-interaction',",
        ),
        (
            "models: {m: {engine: vllm, source: x, gpu: 1}}\nroles: {}",
            "p.yaml: unknown key 'models.m.gpu'. Keys here: engine,",
        ),
        (
            "models: {m: {engine: vllm}}\nroles: {}",
            "p.yaml: key 'models.m.source' is missing. Keys here: engine, source,",
        ),
        ("models: {}\nroles: {a: m}", "p.yaml: role 'a' names model 'm'; models here: "),
        ("roles: {}", "p.yaml: key 'models' is missing. Keys here: name, models, roles,"),
    ],
)
def test_a_profile_that_cannot_work(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_profile(tmp_path / "p.yaml")
    assert str(caught.value).startswith(message)


def test_an_unknown_profile_lists_the_shipped_ones() -> None:
    with pytest.raises(
        InputError, match=r"profile 'embeded' does not exist. Shipped profiles: embedded, paper; else give"
    ):
        load_profile("embeded")
