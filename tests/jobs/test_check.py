"""`tartan check` on everything that ships: fast, and without loading torch."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "transformers", "sentence_transformers", "vllm", "ray", "faiss", "numba"}
SYSTEMS = sorted(str(path) for path in (ROOT / "configs" / "systems").glob("*.yaml"))
FROM_THE_HUB = {"brmgr-fid.yaml"}  # its reader is a T5, of which PyPI has none: not of the embedded profile


@pytest.mark.parametrize("profile", ["embedded", "paper"])
def test_every_system_checks_without_torch(profile: str) -> None:
    systems = [path for path in SYSTEMS if profile == "paper" or Path(path).name not in FROM_THE_HUB]
    code = (
        "import sys, resource\n"
        "from jobs.check import check\n"
        f"assert check({systems!r}, profile={profile!r}, sets=[]) == 0\n"
        f"heavy = {HEAVY!r} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print('cpu', usage.ru_utime + usage.ru_stime)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(SYSTEMS) >= 3
    assert float(done.stdout.rsplit("cpu ", 1)[1]) < 2


def test_it_says_what_each_stage_does() -> None:
    command = [sys.executable, "-m", "jobs.check", "hltcoe", str(ROOT / "configs" / "indexes" / "default.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "5 answer: id, question, snippets -> answer (string), final_prompt (string)" in done.stdout
    assert "default.yaml: index, valid" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hltco"], "system 'hltco' does not exist.*Did you mean 'hltcoe'"),
        (["rag", "--profile", "embeded"], "profile 'embeded' does not exist.*Did you mean 'embedded'"),
        (["rag", "--set", "roles.retriever=smollm2"], r"a search by plaid needs role 'retriever' \(encoder\)"),
        (["configs/indexes/default.yaml", "--set", "dense.rol=x"], "unknown key 'dense.rol'.*Did you mean 'role'"),
        (["configs/profiles/embedded.yaml", "--set", "answer.max_words=9"], "unknown key 'answer'"),
        (["rag", "--set", "roles.answerer=minilm"], "role 'answerer'.*minilm"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "jobs.check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert re.fullmatch(rf"tartan: .*{said}.*\n", done.stderr), done.stderr
