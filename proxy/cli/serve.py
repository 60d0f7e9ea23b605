"""`phasegate serve`."""

import sys
from collections.abc import Callable
from pathlib import Path

import click
import uvloop

from proxy.cli import USAGE
from proxy.cli.config import FILE, found, read, refuse, standing, warn
from proxy.cli.footing import unfounded, unfurnished
from proxy.cli.saying import tell
from proxy.cli.service import Service
from proxy.clock import SystemClock
from proxy.config import Settings
from proxy.flaws import ConfigError
from proxy.interpreter import calm
from proxy.loading import Loaded
from proxy.office.logs import FLUSH_S, to_stderr


@click.command()
@click.option("--upstream", multiple=True, metavar="URL", help="Engine; may be given several times.")
@click.option("--listen", metavar="HOST:PORT", help="What clients talk to.  [127.0.0.1:8800]")
@click.option("--admin", metavar="HOST:PORT", help="Metrics, health, records.  [127.0.0.1:8801]")
@click.option("--records", metavar="FILE.jsonl", help="Append one JSON line per request.")
@click.option("--store", metavar="FILE.db", help="Keep one SQLite row per request.")
@click.option("--config", "file", type=FILE, help="TOML file with every setting.")
@click.option("--workers", type=int, default=1, hidden=True)
@click.option("--quiet", is_flag=True, default=None, help="No line per request.")
def serve(
    upstream: tuple[str, ...],
    listen: str | None,
    admin: str | None,
    records: str | None,
    store: str | None,
    file: Path | None,
    workers: int,
    quiet: bool | None,
) -> None:
    """Relay requests to engines and tell where their time goes."""
    if workers != 1:
        raise click.UsageError(
            "--workers: there is only one: gate, audit and attribution must see all of an engine's traffic; "
            "to scale, run one phasegate beside each engine"
        )
    engines = [{"url": url} for url in upstream] or None
    flags = {"upstream": engines, "listen": listen, "admin": admin, "records": records, "store": store, "quiet": quiet}
    result = found(file, flags).also(unfounded)
    settings = standing(result if not result.flaws else result.also(unfurnished)).settings
    log = to_stderr(settings.log_level, as_json=settings.log_json, clock=SystemClock())

    def reread() -> Settings:
        return read(file, flags).settings

    try:
        sys.exit(uvloop.run(_serve(result, reread, log.put)))
    finally:
        log.close(FLUSH_S)


async def _serve(result: Loaded, reread: Callable[[], Settings], say: Callable[[str], None]) -> int:
    try:
        service = Service(result.settings, reread, say)
    except ConfigError as error:  # a vocabulary is read where it is needed, and not twice
        refuse(map(result.placed, error.flaws))
        return USAGE
    except OSError as error:  # a file that was there a moment ago
        tell(f"phasegate: {error}")
        return USAGE
    warn(result.settings)
    calm()
    return await service.run()
