import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from proxy.cli import sim as module
from proxy.cli.finite import Finite
from proxy.cli.sim import ALIEN, sim
from proxy.sim.faces import OllamaFace
from proxy.sim.jobs import Truth
from proxy.sim.openai import Habits
from proxy.sim.plan import Plan
from proxy.sim.server import build


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[object, dict[str, object], Plan]:
    """The application, what uvicorn was told, and the plan, without a socket."""
    caught: dict[str, object] = {}
    plans: list[Plan] = []

    def built(plan: Plan, *rest: object) -> object:
        plans.append(plan)
        rest[1](Truth(id="chatcmpl-a.1-0", arrived_ns=0, prompt_tokens=1))  # type: ignore[operator]
        return build(plan, *rest)  # type: ignore[arg-type]

    class Server:
        def __init__(self, config: dict[str, object]) -> None:
            self.config = config

        def run(self) -> None:
            caught.update(self.config)

    monkeypatch.setattr(module, "claim", lambda address: None)
    monkeypatch.setattr(module, "build", built)
    monkeypatch.setattr(module.uvicorn, "Config", lambda app, **said: {"app": app, **said})
    monkeypatch.setattr(module.uvicorn, "Server", Server)
    result = CliRunner().invoke(sim, options, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert f"at http://127.0.0.1:{caught['port']}\n" in result.output
    return caught["app"], caught, plans[0]


def test_options_become_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, plan = run(monkeypatch, "--device", "l40s", "--parameters", "3", "--bits", "4", "--max-num-seqs", "4")
    assert (plan.device, plan.parameters, plan.bits, plan.sequences) == ("l40s", 3e9, 4.0, 4)


def test_plain_takes_all_flags_away(monkeypatch: pytest.MonkeyPatch) -> None:
    habits = run(monkeypatch, "--plain")[2].habits
    assert habits == Habits(request_metrics=False, prompt_details=False, request_id_headers=False)


def test_it_listens_on_this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run(monkeypatch, "--port", "8123")[1]
    assert (said["host"], said["port"]) == ("127.0.0.1", 8123)


def test_ollama_is_one_option_away(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _, plan = run(monkeypatch, "--kind", "ollama", "--model", "a", "--model", "b")
    assert isinstance(app._face, OllamaFace)  # type: ignore[attr-defined]
    assert plan.models == ("a", "b")


def test_truth_is_written_line_by_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run(monkeypatch, "--truth", str(tmp_path / "truth.jsonl"))
    assert json.loads((tmp_path / "truth.jsonl").read_text())["request"] == "chatcmpl-a"


NUMBERS = [
    *("port", "parameters", "bits", "max-num-batched-tokens", "max-num-seqs", "long-prefill-token-threshold"),
    *("block-size", "num-gpu-blocks", "max-model-len", "slots", "loaded", "max-queue", "load-seconds"),
    *("stream-interval", "max-num-queued-reqs", "speed"),
]


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "-inf", "1e300", "9" * 20, "x", ""])
@pytest.mark.parametrize("option", NUMBERS)
def test_an_absurd_number_is_refused(option: str, value: str) -> None:
    result = CliRunner().invoke(sim, [f"--{option}", value])
    assert (result.exit_code, f"--{option}" in result.stderr) == (2, True)


def test_every_number_is_tried() -> None:
    numeric = {
        param.opts[0].removeprefix("--") for param in sim.params if isinstance(param.type, click.IntRange | Finite)
    }
    assert numeric == set(NUMBERS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slots", "4"], "--slots says nothing here: --kind is vllm"),
        (["--kind", "ollama", "--plain"], "--plain says nothing here: --kind is ollama"),
        (["--model", "a", "--model", "b"], "--model: vLLM serves one"),
    ],
    ids=["ollama's of vllm", "vllm's of ollama", "two models of vllm"],
)
def test_what_the_kind_does_not_have_is_a_usage_error(words: list[str], said: str) -> None:
    result = CliRunner().invoke(sim, words)
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_every_option_that_names_a_kind_is_that_kinds_alone() -> None:
    kinds = {"vLLM": "ollama", "Ollama": "vllm"}
    for param in sim.params:
        whose = kinds.get((getattr(param, "help", None) or "").replace("vLLM without", "vLLM:").partition(":")[0])
        assert {kind for kind, names in ALIEN.items() if param.name in names} == ({whose} if whose else set())


def test_a_model_that_does_not_fit_the_device_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "claim", lambda address: None)
    result = CliRunner().invoke(sim, ["--parameters", "1000"])
    assert (result.exit_code, result.stderr) == (
        2, "phasegate: 2000.0 GB of weights leave no room on NVIDIA H100 SXM\n"
    )  # fmt: skip
