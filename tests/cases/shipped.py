"""`phasegate serve` as a process of its own.

It is started by this module (`python -m tests.cases.shipped FILE [options of serve]`), so that an ear is at its
recorders and each record goes to a file in the words of checks.
"""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from proxy.attribution.findings import findings
from proxy.attribution.ladder import attribute
from proxy.cli import service
from proxy.cli.serve import serve
from proxy.messages import Message
from proxy.records import Finished, RequestRecord
from tests.cases.case import Case
from tests.cases.exposition import Exposition, parse
from tests.cases.inprocess import HeardApp, heard_now
from tests.cases.product import bugs, report_of, said, series, settings
from tests.cases.seen import Record
from tests.support.loopback import free_port

START_S = 20.0
QUIET_S = 6.0
"""How long the metrics may take to show that all is over: the pulse comes once a second."""
STOP_S = 20.0
PAGES = (
    "/api/requests?limit=1000",
    "/api/engines",
    "/api/findings",
    "/api/prefixes",
    "/api/admission",
    "/api/config",
)
"""What the admin listener says as JSON."""
PULSE_S = 1.2
"""A little more than between two pulses."""


class Shipped:
    """`phasegate serve` as a process of its own, started by this module so that an ear is at its recorders."""

    def __init__(self, case: Case, urls: list[str], folder: Path) -> None:
        # All state: its files, its ports, the process, and what it said.
        self._records_file, self._said_file = folder / "records.jsonl", folder / "said.jsonl"
        self._output_file, self._config_file = folder / "output.txt", folder / "phasegate.toml"
        self.port, self._admin_port = free_port(), free_port()
        tree = settings(
            case,
            urls,
            folder,
            listen=f"127.0.0.1:{self.port}",
            admin=f"127.0.0.1:{self._admin_port}",
            records=str(self._records_file),
        )
        self._config_file.write_text(toml(tree))
        self._said_file.touch()
        self._process: subprocess.Popen[bytes]
        self._spoken: dict[str, str] = {}

    async def start(self) -> None:
        """Until both listeners answer."""
        self._process = await asyncio.to_thread(self._launch)
        end_s = time.monotonic() + START_S
        while not await self._answers():
            if time.monotonic() > end_s or self._process.poll() is not None:
                raise RuntimeError(f"serve did not start: {self._output_file.read_text()[-2000:]}")
            await asyncio.sleep(0.1)

    def _launch(self) -> "subprocess.Popen[bytes]":
        options = [str(self._said_file), "--config", str(self._config_file)]
        command = [sys.executable, "-m", "tests.cases.shipped", *options]
        with self._output_file.open("wb") as output:
            return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            await self._get("/healthz")
        except OSError:
            return False
        return True

    @property
    def pid(self) -> int:
        """Of the data process."""
        return self._process.pid

    async def stop(self) -> None:
        """As a service manager does."""
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, STOP_S)
        finally:
            self._process.kill()
        self._spoken["its output"] = self._output_file.read_text()
        self._spoken["records on disk"] = self._records_file.read_text() if self._records_file.exists() else ""

    async def scrape(self) -> Exposition:
        """Its metrics now, as far as the last pulse told."""
        await asyncio.sleep(PULSE_S)
        self._spoken["metrics"] = await self._get("/metrics")
        return parse(self._spoken["metrics"])

    async def quiet(self) -> Exposition:
        """Its metrics once they show that all is over, and its JSON."""
        end_s = time.monotonic() + QUIET_S
        now = await self.scrape()
        while series(now, "in_flight") and time.monotonic() < end_s:
            now = await self.scrape()
        for path in PAGES:
            self._spoken[path] = await self._get(path)
        return now

    async def _get(self, path: str) -> str:
        def fetch() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._admin_port}{path}", timeout=10) as answer:
                return str(answer.read().decode())

        return await asyncio.to_thread(fetch)

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._said_file.read_text().splitlines() if line.endswith("}")]

    def ids(self) -> list[str]:
        """Ids of all records so far."""
        return [line["id"] for line in self._lines()]

    def records(self, id: str) -> list[Record]:
        return [line["said"] for line in self._lines() if line["id"] == id]

    def report(self) -> dict[str, float | None]:
        return report_of(self._records_file)

    def findings(self) -> list[str]:
        engines = json.loads(self._spoken["/api/engines"])
        contradicted = (finding for engine in engines for finding in engine.get("findings", ()))
        return [*json.loads(self._spoken["/api/findings"]), *contradicted]

    def spoken(self) -> Mapping[str, str]:
        return self._spoken

    def tracebacks(self) -> list[str]:
        return bugs(self._spoken["its output"])

    def memory_mark(self) -> int:
        """Resident bytes now; from here on the peak counts anew."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS")

    def memory_peak(self) -> int:
        """The most resident bytes since the mark."""
        return self._memory("VmHWM")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name))


def toml(tree: dict[str, Any]) -> str:
    """Settings as a TOML file: scalars, lists of strings, tables, lists of tables, small tables in a line."""
    plain = [f"{name} = {_value(value)}" for name, value in tree.items() if not _is_table(value)]
    tables: list[str] = []
    for name, value in tree.items():
        if _is_table(value):
            head = f"[{name}]" if isinstance(value, dict) else f"[[{name}]]"
            for item in [value] if isinstance(value, dict) else value:
                tables += [head, *(f"{key} = {_value(one)}" for key, one in item.items())]
    return "\n".join([*plain, *tables, ""])


def _value(value: Any) -> str:
    """JSON's scalars and lists are TOML's, too; its objects are not."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def main(arguments: list[str]) -> None:
    """`phasegate serve` with these options, save that each record goes to a file in the words of checks, too."""
    file = Path(arguments[0]).open("a", buffering=1)  # noqa: SIM115  # open as long as the process lives

    class Told(HeardApp):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **{**named, "send": telling(named["send"], file)})

    assert "DataApp" in vars(service)
    vars(service)["DataApp"] = Told  # the one part that is not as shipped: it has an ear
    serve(arguments[1:])


def telling(send: Callable[[Message], None], file: TextIO) -> Callable[[Message], None]:
    """`send`, which writes a line for each ended exchange."""

    def told(message: Message) -> None:
        send(message)
        if isinstance(message, Finished):
            breakdown = attribute(message)
            record = RequestRecord(message, breakdown, findings(message, breakdown))
            file.write(json.dumps({"id": message.id, "said": said(record, heard_now())}) + "\n")

    return told


if __name__ == "__main__":
    main(sys.argv[1:])
