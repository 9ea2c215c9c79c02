"""YAML -> checked system: the shipped files load, and every mistake gets its sentence."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from pipeline.compose import load_profile, load_system
from pipeline.errors import InputError
from pipeline.profile import config_file
from pipeline.prompts import load_prompt
from pipeline.schema import PASSAGE, SNIPPET, STRINGS
from pipeline.scoring.answers import abstained
from pipeline.stages.search import SETTINGS
from tests.stubs import says

SYSTEMS = sorted(file.stem for file in config_file("systems", "x").parent.glob("*.yaml"))
PROFILES = sorted(file.stem for file in config_file("profiles", "x").parent.glob("*.yaml"))

SEARCH = "search: {index: plaid, k: 3, queries: question, into: passages}"
ANSWER = "answer: {llm: answerer, prompt: report, evidence: passages, max_words: 50}"


def write(folder: Path, *stages: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text("stages:\n" + "".join(f"  - {stage}\n" for stage in stages))
    return path


def refused(path: Path | str, *sets: str, profile: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_system(path, load_profile(profile) if profile else None, sets)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_shipped_files_check_without_heavy_imports_in_two_seconds() -> None:
    """CPU seconds, imports included: what else runs on the machine should not fail the test."""
    code = f"""
import sys, time
from pipeline.compose import load_profile, load_system
for profile in {PROFILES}:
    for system in {SYSTEMS}:
        if (system, profile) != ("brmgr-fid", "embedded"):  # its T5 is not of the embedded profile
            load_system(system, load_profile(profile))
heavy = ["torch", "ray", "vllm", "transformers", "sentence_transformers", "numba", "faiss", "colbert"]
print([name for name in heavy if name in sys.modules], time.process_time())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy, seconds = out.rsplit(maxsplit=1)
    assert heavy == "[]"
    assert float(seconds) < 2


def test_hltcoe_is_the_papers() -> None:
    system = load_system("hltcoe")
    settings = [next(iter(stage.items())) for stage in system.resolved["stages"]]
    assert [name for name, _ in settings] == ["search", "write_queries", "search", "filter_snippets", "answer"]
    first, writer, second, snippets, answer = (values for _, values in settings)
    assert (first["k"], first["queries"]) == (3, ["question"])
    assert (writer["n"], writer["context"], writer["date"]) == (2, first["into"], "May 12, 2025")
    assert (second["k"], second["queries"]) == (3, ["question", writer["into"]])
    assert {key: snippets[key] for key in ("size", "overlap", "min_cosine", "op", "compare_to", "order", "k")} == {
        "size": 1000,
        "overlap": 100,
        "min_cosine": 0.35,
        "op": "ge",
        "compare_to": "question",
        "order": "rank",
        "k": None,
    }
    assert (answer["max_words"], answer["evidence"], answer["cut_to_max_words"]) == (200, snippets["into"], False)
    assert system.roles() == {"query_writer": "llm", "snippet_filter": "embedder", "answerer": "llm"}
    assert system.indexes() == ["plaid"]
    assert {name: len(prompt.sha256) for name, prompt in system.prompts().items()} == {
        "research_queries": 64,
        "report": 64,
    }
    assert system.columns["queries"] == STRINGS
    assert system.columns["snippets"] == pa.list_(SNIPPET)


def test_hltcoe_shows_every_setting_that_shapes_an_answer() -> None:
    written = yaml.safe_load(config_file("systems", "hltcoe").read_text())["stages"]
    hidden = {
        "search": {"method", *SETTINGS},
        "answer": {"drop", "system_prompt"},
    }
    for shown, full in zip(written, load_system("hltcoe").resolved["stages"], strict=True):
        ((name, keys),) = shown.items()
        assert set(full[name]) - set(keys) == hidden.get(name, set())


def test_adobe_is_the_papers() -> None:
    system = load_system("adobe")
    settings = [next(iter(stage.items())) for stage in system.resolved["stages"]]
    assert [name for name, _ in settings] == ["search", "search", "fuse", "answer", "guardrail"]
    dense, lexical, fuse, answer, guardrail = (values for _, values in settings)
    assert (dense["method"], lexical["method"]) == ("dense", "bm25")
    assert (fuse["dense"], fuse["lexical"]) == (dense["into"], lexical["into"])
    numbers = {key: fuse[key] for key in ("documents", "bm25_boost", "host_boost", "aggregation", "bm25")}
    assert numbers == {"documents": 3, "bm25_boost": 0.3, "host_boost": 0.1, "aggregation": "max", "bm25": "max"}
    assert len(fuse["host"]["sha256"]) == 64  # a run with another list is another run
    assert answer["system_prompt"] == guardrail["system_prompt"]
    assert system.methods() == {"chunks": {"dense", "bm25"}}
    assert system.roles() == {"dense_retriever": "embedder", "answerer": "llm"}
    assert abstained(guardrail["null_text"])


def test_adobe_shows_every_setting_that_shapes_an_answer() -> None:
    written = yaml.safe_load(config_file("systems", "adobe").read_text())["stages"]
    hidden = {"search": {"planned", *SETTINGS}, "answer": {"drop"}}
    for shown, full in zip(written, load_system("adobe").resolved["stages"], strict=True):
        ((name, keys),) = shown.items()
        assert set(full[name]) - set(keys) == hidden.get(name, set())


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_resolved_gives_the_same_system_again(name: str, tmp_path: Path) -> None:
    system = load_system(name)
    (tmp_path / "again.yaml").write_text(json.dumps(system.resolved))
    assert load_system(tmp_path / "again.yaml").resolved == system.resolved


def test_what_is_resolved_is_json_and_gives_the_same_system_again(tmp_path: Path) -> None:
    system = load_system("hltcoe", sets=["answer.max_words=99", "stages.1.k=7", "filter_snippets.min_cosine=null"])
    path = tmp_path / "again.yaml"
    path.write_text(json.dumps(system.resolved))
    again = load_system(path)
    assert again.resolved == system.resolved
    assert again.columns == system.columns
    assert [stage.model_dump() for stage in again.stages] == [stage.model_dump() for stage in system.stages]
    assert system.resolved["stages"][0]["search"]["k"] == 7
    assert system.resolved["stages"][2]["search"]["k"] == 3
    assert system.resolved["stages"][3]["filter_snippets"]["min_cosine"] is None
    assert system.resolved["stages"][4]["answer"]["max_words"] == 99


def test_how_each_index_is_searched(tmp_path: Path) -> None:
    stages = [
        "search: {index: a, k: 3, queries: question, into: dense}",
        "search: {index: a, k: 3, queries: question, into: lexical, method: bm25}",
        "search: {index: b, k: 3, queries: question, into: more, method: bm25}",
    ]
    system = load_system(write(tmp_path, *stages))
    assert system.methods() == {"a": {"plaid", "bm25"}, "b": {"bm25"}}
    with pytest.raises(InputError, match=r"stage 1 \(search\).*ncells is a setting of method plaid"):
        load_system(write(tmp_path, stages[1].replace("k: 3", "k: 3, ncells: 2")))
    with pytest.raises(InputError, match=r"stage 1 \(search\).*method"):
        load_system(write(tmp_path, stages[1].replace("bm25", "bm52")))


def test_a_system_without_answers_is_allowed(tmp_path: Path) -> None:
    system = load_system(write(tmp_path, SEARCH))
    assert system.name == "mine"
    assert system.columns["passages"] == pa.list_(PASSAGE)
    assert "answer" not in system.columns


def test_cut_has_the_type_of_what_it_cuts(tmp_path: Path) -> None:
    cut = "cut: {from: %s, k: 1, into: %s}"
    filtered = "filter_snippets: {embedder: snippet_filter}"
    path = write(tmp_path, SEARCH, cut % ("passages", "passages"), filtered, cut % ("snippets", "head"))
    columns = load_system(path).columns
    assert columns["passages"] == pa.list_(PASSAGE)
    assert columns["head"] == pa.list_(SNIPPET)


def test_the_prompt_next_to_the_system_wins_and_travels_inside_the_stage(tmp_path: Path) -> None:
    file = tmp_path / "report.j2"
    file.write_text("Mine: {{ question }} {{ context }} {{ max_words }}")
    system = load_system(write(tmp_path, SEARCH, ANSWER))
    file.unlink()
    stage = pickle.loads(pickle.dumps(system.stages[1]))
    assert stage.prompt.render(question="q", context="c", max_words=5) == "Mine: q c 5"
    assert system.prompts()["report"].sha256 != load_prompt("report").sha256


FILES = [
    ("", "mine.yaml is empty; it wants a mapping"),
    ("- a\n- b\n", "mine.yaml holds a list; it wants a mapping"),
    ("stages: [\n", "mine.yaml, line 2: not YAML: "),
    ("stages:\n  - search: {k: 1, k: 2}\n", "mine.yaml, line 2: not YAML: key 'k' is given twice."),
    ("description: x\n", "mine.yaml: 'stages' wants a list with at least one stage. Stages: answer, "),
    ("stages: []\n", "mine.yaml: 'stages' wants a list with at least one stage."),
    ("stages: {search: {}}\n", "mine.yaml: 'stages' wants a list with at least one stage."),
    (
        "stage:\n  - answer: {}\n",
        "mine.yaml: unknown key 'stage'. Keys here: stages, description. Did you mean 'stages'?",
    ),
    ("stages:\n  - answer\n", "mine.yaml, stage 1: wants one mapping 'name: {settings}', not 'answer'."),
    ("stages:\n  - search: {}\n    cut: {}\n", "mine.yaml, stage 1: wants one mapping 'name: {settings}', not {"),
    ("stages:\n  - answer: [1]\n", "mine.yaml, stage 1 (answer): wants settings 'key: value', not [1]."),
]


@pytest.mark.parametrize(("text", "message"), FILES)
def test_a_file_that_is_no_list_of_stages(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert message in refused(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("stages: [é]".encode("latin-1"))
    assert "latin.yaml cannot be read as text: " in refused(tmp_path / "latin.yaml")
    missing = refused("hltco")
    assert missing.startswith("system 'hltco' does not exist. Shipped systems: adobe, ")
    assert "hltcoe" in missing
    assert "is a folder, not a file" in refused(tmp_path)


# (stages, what the message says, after "mine.yaml, ")
STAGES_REFUSED = [
    (["serch: {}"], "stage 1: no stage is called 'serch'. Stages: answer, …cut, …Did you mean 'search'?"),
    (
        [SEARCH.replace("into", "inot")],
        "stage 1 (search): unknown key 'inot'. Keys here: index, k, queries, into, …'into'",
    ),
    (
        ["search: {index: plaid, k: 3, into: x}"],
        "stage 1 (search): key 'queries' is missing. Keys here: index, k, queries,",
    ),
    (["search:"], "stage 1 (search): key 'index' is missing."),
    ([SEARCH.replace("k: 3", "k: 0")], "stage 1 (search): key 'k' should be greater than 0, not 0."),
    ([SEARCH.replace("k: 3", "k: three")], "stage 1 (search): key 'k' should be a valid integer, not 'three'."),
    ([SEARCH.replace("k: 3", "k: true")], "stage 1 (search): key 'k' should be a valid integer, not True."),
    ([SEARCH.replace("question", "[]")], "stage 1 (search): key 'queries' should have at least 1 item, not []."),
    ([SEARCH.replace("question", "3")], "stage 1 (search): key 'queries' should be a valid list, not 3."),
    ([SEARCH, "cut: {from: passages, into: x}"], "stage 2 (cut): one of k and max_words is needed."),
    (
        [SEARCH, "cut: {source: passages, k: 1, into: x}"],
        "stage 2 (cut): unknown key 'source'. Keys here: from, into, k,",
    ),
    (
        [SEARCH, "filter_snippets: {embedder: e, size: 100, overlap: 100}"],
        "stage 2 (filter_snippets): overlap 100 must be below size 100.",
    ),
    (
        [SEARCH, "filter_snippets: {embedder: e, order: best}"],
        "stage 2 (filter_snippets): key 'order' should be 'rank', 'similarity' or 'reverse', not 'best'.",
    ),
    (
        [SEARCH, "filter_snippets: {embedder: e, min_cosine: .nan}"],
        "stage 2 (filter_snippets): key 'min_cosine' should be a finite number, not nan.",
    ),
    (
        ["answer: {llm: a, prompt: closed_book, cut_to_max_words: true}"],
        "stage 1 (answer): cut_to_max_words needs max_words.",
    ),
    (
        [SEARCH.replace("into: passages", "into: dense"), ANSWER.replace("passages", "lexical")],
        "stage 2 (answer): reads 'lexical' (list<passage or snippet>), which no earlier stage writes. "
        "Columns here: id, question, dense. Set 'into: lexical' on stage 1 (search)?",
    ),
    (
        [SEARCH, ANSWER.replace("passages", "pasages")],
        "stage 2 (answer): reads 'pasages' (list<passage or snippet>), which no earlier stage writes. "
        "Columns here: id, question, passages. Did you mean 'passages'?",
    ),
    ([ANSWER, SEARCH], "stage 1 (answer): reads 'passages' …A later stage (search) writes it: move that one up?"),
    (
        [ANSWER],
        "stage 1 (answer): reads 'passages' …No stage here writes list<passage or snippet>: add one before this.",
    ),
    (
        [SEARCH, SEARCH.replace("queries: question", "queries: passages")],
        "stage 2 (search): reads 'passages' as string or list<string>, but stage 1 (search) writes it as list<passage>"
        ". Columns here that would do: id, question.",
    ),
    (
        ["filter_snippets: {embedder: e, passages: question}"],
        "stage 1 (filter_snippets): reads 'question' as list<passage>, but the question file has it as string. "
        "Columns here that would do: none.",
    ),
    (
        [SEARCH, "filter_snippets: {embedder: e}", "filter_snippets: {embedder: e, passages: snippets, into: x}"],
        "stage 3 (filter_snippets): reads 'snippets' as list<passage>, but stage 2 (filter_snippets) writes it as "
        "list<snippet>. Columns here that would do: passages.",
    ),
    (
        [SEARCH.replace("into: passages", "into: trace")],
        "stage 1 (search): writes 'trace', a column of the question table",
    ),
    ([SEARCH.replace("into: passages", "into: id")], "stage 1 (search): writes 'id', a column of the question table"),
    (
        [SEARCH, ANSWER.replace("report", "reprot")],
        "stage 2 (answer): no prompt 'reprot' (reprot.j2 in …Prompts there: …report",
    ),
    ([SEARCH, ANSWER.replace("report", "3")], "stage 2 (answer): key 'prompt' wants the name of a prompt, not 3."),
    (
        [SEARCH, ANSWER.replace("report", "closed_book")],
        "stage 2 (answer): prompt 'closed_book' lacks the slot {{ context }}. "
        "Slots this stage fills: context, max_words, question.",
    ),
    (
        ["answer: {llm: a, prompt: report, max_words: 9}"],
        "stage 1 (answer): prompt 'report' uses the slot {{ context }}, which this stage does not fill. "
        "It fills: max_words, question.",
    ),
    (["answer: {llm: a, prompt: bad}"], "stage 1 (answer): prompt …bad.j2, line 2: not a Jinja template: "),
    (
        ["answer: {llm: a, prompt: includes}"],
        "stage 1 (answer): prompt …includes.j2 includes 'bad.j2'; a prompt stands alone",
    ),
]


@pytest.mark.parametrize(("stages", "message"), STAGES_REFUSED)
def test_a_stage_that_cannot_work(tmp_path: Path, stages: list[str], message: str) -> None:
    (tmp_path / "bad.j2").write_text("line 1\n{{ question | nofilter }}")
    (tmp_path / "includes.j2").write_text("{{ question }}{% include 'bad.j2' %}")
    assert says(refused(write(tmp_path, *stages)), f"mine.yaml, {message}")


def test_roles_that_the_profile_lacks_or_fills_otherwise(tmp_path: Path) -> None:
    path = write(tmp_path, SEARCH, ANSWER.replace("answerer", "answrer"))
    assert says(
        refused(path, profile="embedded"),
        "mine.yaml, stage 2 (answer): asks for role 'answrer' (llm), which profile embedded lacks. Roles there: "
        "retriever, …answerer, …Did you mean 'answerer'? Add 'answrer: MODEL' under its 'roles'.",
    )
    path = write(tmp_path, SEARCH, ANSWER.replace("answerer", "snippet_filter"))
    assert refused(path, profile="embedded") == (
        "mine.yaml, stage 2 (answer): asks for role 'snippet_filter' (llm), which profile embedded fills with 'minilm' "
        "(sentence-transformers, embedder). Models of kind llm there: smollm2."
    )
    path.write_text(path.read_text().replace("{llm: snippet_filter, prompt: report", "{llm: scorer, prompt: report"))
    assert load_system(path, load_profile("embedded")).roles() == {"scorer": "llm"}  # vLLM is asked for as either
    assert load_system(path, load_profile("paper")).roles() == {"scorer": "llm"}  # so is transformers
    path.write_text(path.read_text().replace("{llm: scorer, prompt: report", "{llm: fid_reader, prompt: report"))
    assert "'fid-t5' (fid, reader). Models of kind llm" in refused(path, profile="paper")
    path = write(tmp_path, SEARCH, ANSWER.replace("answerer", "snippet_filter"))
    assert load_system(path).roles() == {"snippet_filter": "llm"}  # without a profile nothing is known of roles
