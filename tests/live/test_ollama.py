"""Real Ollama behind phasegate: one and two slots, native routes and `/v1`, swaps, reloads, and its own command."""

import hashlib
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import ollama
import pytest

from tests.live import compare, load, ollama_store
from tests.live.compare import Record, Task, phase
from tests.live.conftest import Gate
from tests.live.load import Ask, Heard
from tests.live.processes import HOME, Engine, Phasegate, until
from tests.live.steadiness import steadily

pytestmark = pytest.mark.timeout(900)

COUNT = 80
MODEL, TWIN, OTHER = "smollm2:135m", "twin:latest", "other:latest"
"""A model, another name of its weights, and other weights."""

OVERLOAD = 2.0
"""Arrivals a second, as a multiple of what the slots can do."""

WARM_S = 0.3
"""A load is longer: 0.5 s at least; with the model in memory 1 to 150 ms."""

BLOB_BYTES = 90 * 1024 * 1024
FLAT_BYTES = 24 * 1024 * 1024
"""What relaying a body of any size may add to the data process: buffers of both sockets, pieces in flight."""

BEFORE_PROMPT = ("admission", "proxy", "frontend", "load", "queue")


@pytest.fixture(scope="module")
def models(need: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    need("ollama")
    folder = tmp_path_factory.mktemp("ollama")
    gguf = HOME / "models/smollm2-135m.f16.gguf"
    for name, tail in ((MODEL, b""), (TWIN, b""), (OTHER, b"other")):
        ollama_store.add(gguf, folder, name, tail)
    yield folder
    ollama_store.remove(folder)  # half a gigabyte


@pytest.fixture(scope="module", params=[1, 2], ids=["one_slot", "two_slots"])
def slots(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def engine(models: Path, slots: int) -> Iterator[Engine]:
    environment = {
        "OLLAMA_MODELS": str(models),
        "OLLAMA_NUM_PARALLEL": str(slots),
        "OLLAMA_MAX_LOADED_MODELS": "1",
        "OLLAMA_KEEP_ALIVE": "10m",
        "OLLAMA_DEBUG": "1",  # shows the runner's log, which tells when a slot was released
    }
    started = Engine("ollama", environment=environment)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def proxy(engine: Engine, gate: Gate) -> Phasegate:
    return gate(engine.url)


# --- the mixed load ----------------------------------------------------------------------------------------------


def body(rng: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    """Long and short prompts and answers; of four requests three on native routes, one on `/v1`."""
    tokens = rng.choice((4, 8, 16, 32))
    text = load.prompt(rng, rng.choice((8, 8, 30, 30, 120)))
    said: dict[str, Any] = {"model": MODEL, "stream": number % 5 != 4}
    messages = [{"role": "user", "content": text}]
    if number % 4 == 0:
        return "/v1/chat/completions", {**said, "messages": messages, "max_tokens": tokens}
    if number % 4 == 2:
        return "/api/chat", {**said, "messages": messages, "options": {"num_predict": tokens}}
    return "/api/generate", {**said, "prompt": text, "options": {"num_predict": tokens}}


def asks(rng: random.Random, name: str, count: int, per_second: float) -> list[Ask]:
    made = []
    for number, at in enumerate(load.poisson(rng, count, per_second)):
        path, said = body(rng, number)
        made.append(Ask(f"{name}-{number}", path, said, at, library=path.startswith("/v1")))
    return made


def capacity(url: str) -> float:
    """Requests a second that the engine can do now; the model is in memory afterwards."""
    load.run(url, [Ask("loads", "/api/generate", {"model": MODEL, "prompt": "a", "options": {"num_predict": 1}})])
    mix = asks(random.Random(1), "warm", 12, 1e9)
    start = time.monotonic()
    load.run(url, mix)
    return len(mix) / (time.monotonic() - start)


@dataclass(frozen=True)
class Run:
    """One load: what clients heard, what phasegate wrote, what the runner's log says; by id."""

    heard: dict[str, Heard]
    records: dict[str, Record]
    tasks: dict[str, Task]
    """Of native routes: `/v1` tells no figures to find the task by."""


def figures(heard: Heard) -> tuple[float, float]:
    return heard.last("prompt_eval_duration") / 1e6, heard.last("eval_duration") / 1e6


@pytest.fixture(scope="module")
def run(engine: Engine, proxy: Phasegate, slots: int) -> Run:
    def attempt(number: int) -> list[Heard]:
        per_second = OVERLOAD * capacity(engine.url)
        return load.run(proxy.url, asks(random.Random(7), f"load{slots}.{number}", COUNT, per_second))

    heard = steadily(attempt)
    by_id = {one.ask.id: one for one in heard}
    native = {id: one for id, one in by_id.items() if one.ask.path.startswith("/api")}
    tasks = compare.tasks_of(native, figures, lambda: engine.lines)
    return Run(by_id, compare.records(proxy, by_id), tasks)


def test_every_arrival_gives_one_record_and_every_request_completes(run: Run, proxy: Phasegate) -> None:
    assert compare.count(proxy, run.heard) == COUNT
    assert {record["outcome"] for record in run.records.values()} == {"completed"}


def test_there_was_a_queue(run: Run) -> None:
    waits = sorted((task.start_ns - run.heard[id].sent_ns) / 1e9 for id, task in run.tasks.items())
    assert waits[len(waits) // 2] > 0.05, "the load was too light to prove anything"


def test_the_wait_of_native_routes_is_true_to_3_ms(run: Run) -> None:
    errors = [
        phase(run.records[id], *BEFORE_PROMPT) - (task.start_ns - run.heard[id].sent_ns) / 1e9
        for id, task in run.tasks.items()
    ]
    print("wait error p50, p95, max", *(f"{compare.percentile(errors, p) * 1e3:.2f}" for p in (0.5, 0.95, 1)), "ms")
    assert compare.percentile(errors, 0.95) <= 0.003


def test_prefill_and_decode_are_its_counters(run: Run) -> None:
    for id in run.tasks:
        heard, record = run.heard[id], run.records[id]
        assert phase(record, "prefill") == pytest.approx(heard.last("prompt_eval_duration") / 1e9, abs=1e-9), id
        assert phase(record, "decode") == pytest.approx(heard.last("eval_duration") / 1e9, abs=1e-9), id


def test_waiting_is_queue_only_where_every_slot_was_taken(run: Run) -> None:
    long = [id for id, task in run.tasks.items() if task.start_ns - run.heard[id].sent_ns > 0.5e9]
    assert long
    assert all(phase(run.records[id], "queue") > 0.4 for id in long)


def test_v1_is_joint_or_unknown_and_never_a_guess(run: Run) -> None:
    said = {name for id, record in run.records.items() if id not in run.tasks for name in record["phases"]}
    assert said <= {"proxy", "queue_prefill", "decode", "engine", "delivery", "unattributed"}


def test_ttft_is_the_clients_own(run: Run) -> None:
    """For 95 %: Ollama's front is a busy process more, and now and then takes the slice that the client waits for."""
    errors = [run.records[id]["ttft_s"] - one.ttft_s for id, one in run.heard.items() if one.ttft_s is not None]
    print("ttft error p50, p99, max", *(f"{compare.percentile(errors, p) * 1e3:.2f}" for p in (0.5, 0.99, 1)), "ms")
    assert compare.share(errors, 0.005) >= 0.95


def test_the_sum_is_kept_and_no_report_is_contradicted(run: Run) -> None:
    for id, record in run.records.items():
        assert compare.sums(record), id
        assert "engine_durations_distrusted" not in record["findings"], id


# --- models come and go ------------------------------------------------------------------------------------------


def generate(proxy: Phasegate, id: str, model: str = MODEL, tokens: int = 4, **options: int) -> Heard:
    said = {"model": model, "prompt": f"{id}: once upon", "options": {"num_predict": tokens, **options}}
    return load.run(proxy.url, [Ask(id, "/api/generate", said)])[0]


def while_it_writes(proxy: Phasegate, id: str, model: str) -> tuple[Heard, Heard]:
    """A long answer of the first model, and a short one of `model` that is asked for in the middle of it."""
    long = {"model": MODEL, "prompt": "Count to a thousand: one,", "options": {"num_predict": 120, "temperature": 0}}
    short = {"model": model, "prompt": "once upon", "options": {"num_predict": 4}}
    both = [Ask(f"{id}-first", "/api/generate", long), Ask(id, "/api/generate", short, after_s=0.4)]
    first, second = load.run(proxy.url, both)
    assert first.ended_ns - second.sent_ns > 0.5e9, "the first answer was over too soon to be waited for"
    return first, second


def test_a_swap_shows_load_and_queue_apart(proxy: Phasegate, slots: int) -> None:
    generate(proxy, f"swap{slots}-before")
    first, second = while_it_writes(proxy, f"swap{slots}", OTHER)
    record = compare.records(proxy, [second.ask.id])[second.ask.id]
    waited = (first.ended_ns - second.sent_ns) / 1e9
    assert phase(record, "queue") == pytest.approx(waited, abs=0.1)
    assert phase(record, "load") > WARM_S
    assert phase(record, "load", "queue") == pytest.approx(second.last("load_duration") / 1e9, abs=0.05)
    assert "cold_load" in record["findings"]


def test_another_window_is_a_load_each_time(proxy: Phasegate, slots: int) -> None:
    for number, window in enumerate((1024, 2048, 1024, 2048)):
        generate(proxy, f"window{slots}-{number}", num_ctx=window)
    generate(proxy, f"window{slots}-same", num_ctx=2048)
    found = compare.records(proxy, [f"window{slots}-{which}" for which in (0, 1, 2, 3, "same")])
    loads = {id: phase(record, "load") for id, record in found.items()}
    assert loads.pop(f"window{slots}-same") < WARM_S
    assert all(load_s > WARM_S for load_s in loads.values()), loads
    assert all(phase(record, "queue") < 0.05 for record in found.values())


def test_two_names_of_the_same_weights_share_slots(proxy: Phasegate, slots: int) -> None:
    until(lambda: TWIN in proxy.engines()[0]["models"], 10)
    generate(proxy, f"twin{slots}-before")
    first, second = while_it_writes(proxy, f"twin{slots}", TWIN)
    record = compare.records(proxy, [second.ask.id])[second.ask.id]
    assert phase(record, "load") < WARM_S, "they share a runner"
    waited = (first.ended_ns - second.sent_ns) / 1e9 if slots == 1 else 0.0
    assert phase(record, "queue") == pytest.approx(waited, abs=0.1)


def test_a_chat_that_does_not_fit_shows_frontend_and_that_it_was_cut(proxy: Phasegate, slots: int) -> None:
    rng = random.Random(3)
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": load.prompt(rng, 30)} for n in range(61)]
    options = {"num_predict": 4, "num_ctx": 1024}
    ids = [f"cut{slots}-{number}" for number in range(2)]  # the first loads
    for id in ids:
        load.run(proxy.url, [Ask(id, "/api/chat", {"model": MODEL, "messages": messages, "options": options})])
    record = compare.records(proxy, ids)[ids[1]]
    assert phase(record, "frontend") > 0.02
    assert phase(record, "queue") == 0
    assert "context_truncated" in record["findings"]


def test_a_client_that_leaves_is_a_record_and_frees_its_slot(proxy: Phasegate, slots: int) -> None:
    id = f"left{slots}"
    said = {"model": MODEL, "prompt": "Once upon", "options": {"num_predict": 3000}}
    with httpx.stream(
        "POST", proxy.url + "/api/generate", json=said, headers={"x-request-id": id}, timeout=60
    ) as response:
        assert next(response.iter_raw())
    start = time.monotonic()
    generate(proxy, id + "-next")
    assert time.monotonic() - start < 5, "the slot is still taken"
    record = compare.records(proxy, [id])[id]
    assert (record["outcome"], record["status"]) == ("client_gone", 200)


# --- its own clients ---------------------------------------------------------------------------------------------


def test_what_is_in_memory_is_seen(proxy: Phasegate, slots: int) -> None:
    generate(proxy, f"memory{slots}", num_ctx=2048)

    def loaded() -> dict[str, Any]:
        return {model["name"]: model for model in proxy.engines()[0].get("inside", {}).get("loaded", ())}

    until(lambda: loaded().get(MODEL, {}).get("context_length") == 2048, 15, lambda: str(proxy.engines()))
    assert loaded()[MODEL]["expires_at"]


def test_the_ollama_library_works_through_it(proxy: Phasegate) -> None:
    with ollama.Client(host=proxy.url) as client:
        assert MODEL in {model.model for model in client.list().models}
        pieces = list(client.generate(MODEL, "once upon", stream=True, options={"num_predict": 4}))
        assert pieces[-1].done
        assert pieces[-1].eval_count
        answer = client.chat(MODEL, [{"role": "user", "content": "Hello"}], options={"num_predict": 4})
        assert answer.message.content
        assert client.ps().models[0].model == MODEL
        assert client.show(MODEL).details is not None
        with pytest.raises(ollama.ResponseError, match="not found"):
            client.generate("nobody", "a")


def command(proxy: Phasegate, *words: str, said: str | None = None, cwd: Path | None = None) -> str:
    """What `ollama WORDS` prints, on both of its outputs."""
    environment = {**os.environ, "OLLAMA_HOST": proxy.url}
    binary = HOME / "ollama/bin/ollama"
    done = subprocess.run(
        [binary, *words], env=environment, input=said, cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_ollama_command_works_through_it(proxy: Phasegate, tmp_path: Path, slots: int) -> None:
    made = f"made{slots}"
    (tmp_path / "Modelfile").write_text(f"FROM {MODEL}\nPARAMETER num_predict 24\n")  # left to itself it may never end
    command(proxy, "create", made, "-f", str(tmp_path / "Modelfile"))
    verbose = command(proxy, "run", "--verbose", made, "Say hello.")
    counts = re.findall(r"eval count: +(\d+) token", verbose)
    lasted = re.findall(r"^eval duration: +([\d.]+)(m?s)", verbose, re.MULTILINE)
    assert len(counts) == 2
    assert len(lasted) == 1, verbose
    decode_s = float(lasted[0][0]) / (1000 if lasted[0][1] == "ms" else 1)
    until(lambda: any(f"{counts[0]}+{counts[1]} tok" in line.text for line in proxy.lines), 10)
    latest = httpx.get(proxy.admin + "/api/requests", params={"kind": "generate", "limit": 1}).json()[0]
    assert (latest["tokens"]["prompt"], latest["tokens"]["output"]) == (int(counts[0]), int(counts[1]))
    assert phase(latest, "decode") == pytest.approx(decode_s, abs=1e-6)
    assert MODEL in command(proxy, "ps")  # whose weights it has
    listed = command(proxy, "list")
    assert made in listed
    assert OTHER in listed
    assert "llama" in command(proxy, "show", MODEL)
    command(proxy, "rm", made)
    assert made not in command(proxy, "list")


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def test_a_large_blob_streams_through_at_flat_memory(proxy: Phasegate, models: Path) -> None:
    piece = os.urandom(1024 * 1024)
    digest = hashlib.sha256()
    for _ in range(BLOB_BYTES // len(piece)):
        digest.update(piece)
    Path(f"/proc/{proxy.pid}/clear_refs").write_text("5")  # the peak starts anew
    before = peak_bytes(proxy.pid)
    answer = httpx.post(
        f"{proxy.url}/api/blobs/sha256:{digest.hexdigest()}",
        content=(piece for _ in range(BLOB_BYTES // len(piece))),
        timeout=120,
    )
    grown = peak_bytes(proxy.pid) - before
    blob = models / f"blobs/sha256-{digest.hexdigest()}"
    assert (answer.status_code, blob.stat().st_size) == (201, BLOB_BYTES)
    blob.unlink()
    print(f"peak memory grew by {grown / 2**20:.1f} MiB")
    assert grown < FLAT_BYTES
