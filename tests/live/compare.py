"""What phasegate wrote down, set beside what clients and engines' logs say."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.live.load import Heard
from tests.live.processes import Line, Phasegate, until

Record = dict[str, Any]

BEFORE = ("admission", "proxy", "frontend", "step_wait", "queue", "queue_prefill", "load", "prefill")
"""Phases that lie before the first token."""

SETTLED_S = 15.0
"""Records leave within seconds of the end."""


def records(gate: Phasegate, ids: Iterable[str]) -> dict[str, Record]:
    """One record for each of these requests, by id; waits until they are written."""
    wanted = set(ids)
    found: dict[str, Record] = {}

    def there() -> bool:
        for line in gate.file.read_text().splitlines() if gate.file.exists() else []:
            record = json.loads(line)
            if record["id"] in wanted:
                found[record["id"]] = record
        return wanted <= found.keys()

    until(there, SETTLED_S, lambda: f"no record of {sorted(wanted - found.keys())}")
    return found


def count(gate: Phasegate, ids: Iterable[str]) -> int:
    """Records of these requests, twins included."""
    wanted = set(ids)
    return sum(json.loads(line)["id"] in wanted for line in gate.file.read_text().splitlines())


def phase(record: Record, *names: str) -> float:
    """Seconds of these phases together; 0 for those that are absent."""
    return sum(record["phases"].get(name, {"s": 0.0})["s"] for name in names)


def share(values: Sequence[float], bound: float) -> float:
    """The share of values within the bound, either way."""
    return sum(abs(value) <= bound for value in values) / len(values)


def holds_for_99_percent(errors: Sequence[float], bound: float) -> bool:
    """Of a hundred one may lie beyond the bound; of fewer, one too: one miss in 50 does not contradict 99 %."""
    return sum(abs(error) > bound for error in errors) <= math.ceil(len(errors) / 100)


def percentile(values: Iterable[float], part: float) -> float:
    """The smallest value that `part` of them do not exceed, by size."""
    ordered = sorted(map(abs, values))
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def sums(record: Record) -> bool:
    """The phases add up to the total, to what seconds as decimals can show."""
    return abs(sum(part["s"] for part in record["phases"].values()) - record["total_s"]) < 1e-6


@dataclass(frozen=True)
class Run:
    """One load: what clients heard and what phasegate wrote, by id."""

    heard: dict[str, Heard]
    records: dict[str, Record]

    @property
    def streams(self) -> list[str]:
        return [id for id, heard in self.heard.items() if heard.ask.streams]

    def has_the_clients_ttft(self) -> None:
        errors = [self.records[id]["ttft_s"] - (self.heard[id].ttft_s or 0) for id in self.streams]
        print("ttft error p50, p99, max", *(f"{percentile(errors, p) * 1e3:.2f}" for p in (0.5, 0.99, 1)), "ms")
        assert holds_for_99_percent(errors, 0.005)

    def has_phases_that_add_up_to_ttft(self) -> None:
        errors = [phase(self.records[id], *BEFORE) - (self.heard[id].ttft_s or 0) for id in self.streams]
        print("phases - ttft p50, p80, max", *(f"{percentile(errors, p) * 1e3:.2f}" for p in (0.5, 0.8, 1)), "ms")
        assert share(errors, 0.005) >= 0.80

    def has_kept_sums_and_no_contradiction(self) -> None:
        for id, record in self.records.items():
            assert sums(record), id
            assert "engine_durations_distrusted" not in record["findings"], id


# --- llama-server's log ------------------------------------------------------------------------------------------

_PROMPT = re.compile(r"id +(\d+) \| task (\d+) \|\s+prompt eval time = +([\d.]+) ms / +(\d+) tokens")
_EVAL = re.compile(r"id +(\d+) \| task (\d+) \|\s+eval time = +([\d.]+) ms / +(\d+) tokens")
_STAMP = re.compile(r"(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) [A-Z] ")
_RELEASE = re.compile(r"release: id +(\d+) \| task (\d+) \|")


@dataclass(slots=True)
class Task:
    """One request, as llama-server's log tells of it."""

    prompt_ms: float = 0.0
    prompt_tokens: int = 0
    eval_ms: float = 0.0
    eval_tokens: int = 0
    released_ns: int = 0
    """The release line came."""

    @property
    def start_ns(self) -> float:
        """The prompt was begun. The line that says a slot was launched can be early by seconds, so count back."""
        return self.released_ns - (self.prompt_ms + self.eval_ms) * 1e6


def on_our_clock(lines: Iterable[Line]) -> list[Line]:
    """Lines with their own stamps, set on our clock by the line that came fastest.

    A thread of its own writes them, and a busy machine keeps it waiting: 100 ms seen.
    """
    stamped = [(line, found) for line in lines if (found := _STAMP.search(line.text))]
    own = [int(m[1]) * 60 * 10**9 + int(m[2]) * 10**9 + int(m[3]) * 10**6 + int(m[4]) * 1000 for _, m in stamped]
    offset = min((line.at_ns - at for (line, _), at in zip(stamped, own, strict=True)), default=0)
    return [Line(at + offset, line.text) for (line, _), at in zip(stamped, own, strict=True)]


def tasks(lines: Iterable[Line]) -> list[Task]:
    """All that were released, in that order."""
    open_: dict[str, Task] = {}
    released: list[Task] = []
    for line in lines:
        if found := _PROMPT.search(line.text):
            open_[found[2]] = Task(prompt_ms=float(found[3]), prompt_tokens=int(found[4]))
        elif (found := _EVAL.search(line.text)) and found[2] in open_:
            open_[found[2]].eval_ms, open_[found[2]].eval_tokens = float(found[3]), int(found[4])
        elif (found := _RELEASE.search(line.text)) and found[2] in open_:
            task = open_.pop(found[2])
            task.released_ns = line.at_ns
            released.append(task)
    return released


def task_of(heard: Heard, prompt_ms: float, eval_ms: float, among: Iterable[Task]) -> Task | None:
    """The task with these figures, which the log rounds to 0.01 ms, and which ended while the client listened.

    Its line in the log may be written late, by a thread of an engine that gives way to everybody: what its client has
    had whole was released by then.
    """
    near = (
        replace(task, released_ns=min(task.released_ns, heard.ended_ns))
        for task in among
        if abs(task.prompt_ms - prompt_ms) < 0.011
        and abs(task.eval_ms - eval_ms) < 0.011
        and heard.sent_ns < task.released_ns < heard.ended_ns + 1e9
    )
    return next(near, None)


def tasks_of(
    heard: Mapping[str, Heard], figures: Callable[[Heard], tuple[float, float]], log: Callable[[], Iterable[Line]]
) -> dict[str, Task]:
    """By id the task of each request, whose `figures` (prompt and eval, ms) its answer said. Waits for the log: an
    engine may write its line after the answer."""
    found: dict[str, Task] = {}

    def there() -> bool:
        done = tasks(log())
        for id, one in heard.items():
            if (task := task_of(one, *figures(one), done)) is not None:
                found[id] = task
        return found.keys() == heard.keys()

    until(there, SETTLED_S, lambda: f"not in the engine's log: {sorted(heard.keys() - found.keys())}")
    return found
