"""The data process is killed in the middle: no file is spoilt, and its successor goes on with the same ones."""

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path

from tests.bench.endurance import load, running
from tests.support.loopback import free_port


def test_a_kill_in_mid_traffic_spoils_no_file(tmp_path: Path) -> None:
    engine, data, admin = free_port(), free_port(), free_port()
    store, records = tmp_path / "requests.db", tmp_path / "records.jsonl"
    serve = [f"--upstream=http://127.0.0.1:{engine}", f"--listen=127.0.0.1:{data}", f"--admin=127.0.0.1:{admin}"]
    serve += [f"--store={store}", f"--records={records}", "--quiet"]

    async def killed(proxy_kill: object) -> None:
        asking = asyncio.create_task(load(data, 0, 100_000, 8))
        await asyncio.sleep(2.0)
        assert callable(proxy_kill)
        proxy_kill()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await asking

    with running("sim", f"--port={engine}", "--speed=100", "--model=sim", port=engine):
        with running("serve", *serve, port=data) as proxy:
            asyncio.run(killed(proxy.kill))
        with running("serve", *serve, port=data):
            asyncio.run(load(data, 200_000, 40, 4))
    with contextlib.closing(sqlite3.connect(store)) as rows:
        assert rows.execute("pragma integrity_check").fetchone() == ("ok",)
        ids = {id for (id,) in rows.execute("select id from requests")}
    assert {f"e{number}" for number in range(200_000, 200_040)} <= ids
    assert len(ids) > 40, "what came before the kill is there too"
    assert all(json.loads(line)["v"] == 1 for line in records.read_text().splitlines())
