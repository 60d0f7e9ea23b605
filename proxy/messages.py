"""What the data process tells the office: frozen records, standard library only.

One frame is one message. `Hello` is the first on every connection, so that an office that was restarted knows what the
one before it knew; it comes again after a reload. `Finished` (records) is one ended exchange. `Pulse` is the state of
the data process, about once a second; its counters count since that process began, so a pulse that is lost costs
nothing.
"""

from dataclasses import dataclass

from proxy.records import Finished, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAddress:
    """Where an engine's own metrics are to be had."""

    name: str
    url: str
    api_key: str = ""
    ca_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What the office needs to know before it can work. Travels over the socketpair alone: it holds secrets."""

    pid: int
    """Of the data process."""
    version: str
    """Of phasegate."""
    config: str = "{}"
    """The whole configuration as JSON, secrets masked: what `/api/config` shows."""
    admin_host: str = "127.0.0.1"
    admin_port: int = 8801
    """0: any free port."""
    admin_token: str = ""
    admin_hosts: tuple[str, ...] = ()
    """Host names under which the admin listener may be asked, beside its address and localhost."""
    records: str = ""
    """JSONL file; empty: none."""
    store: str = ""
    """SQLite file; empty: none."""
    store_days: float = 30.0
    store_mb: int = 1024
    models: int = 40
    """Model names that get a label of their own, at most."""
    tenants: int = 20
    """Tenants that get a label of their own, at most."""
    engines: tuple[EngineAddress, ...] = ()
    """Engines whose own metrics are looked at."""
    scrape_s: float = 5.0
    """Seconds between two looks; 0: never."""
    audit_key: bytes = b""
    """Key of the prefix audit's hashes; empty: no audit."""
    capture_text: bool = False
    """Excerpts of prompts are shown as they are."""
    live: bool = True
    """One line per request on the terminal."""
    log_level: str = "info"
    log_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """One engine, as the data process sees it."""

    name: str
    """As in records; the label in metrics."""
    kind: str = "openai"
    version: str | None = None
    authority: str = ""
    """Host and port; never a path, a query or a key."""
    answers: bool = False
    """The last look at it, or the last request, got an answer."""
    models: tuple[str, ...] = ()
    slots: int | None = None
    in_flight: int = 0
    """Exchanges dispatched to it and not ended."""
    queued: int = 0
    """Exchanges that wait in our own queue for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The data process at one moment."""

    at_s: float
    """Wall clock, seconds since the epoch."""
    in_flight: int = 0
    """Exchanges that have arrived and not ended."""
    engines: tuple[EngineState, ...] = ()
    lag_ns: tuple[int, ...] = ()
    """How late the loop's timer came, each time since the last pulse."""
    malformed: int = 0
    """HTTP so broken that the server answered it by itself, since start."""
    records_lost: int = 0
    """Records that were dropped on the way to the office, or died with it, since start."""
    memory_bytes: int | None = None
    """Resident memory of the data process."""
    draining: bool = False
    """It takes no new work."""
    reloaded: str | None = None
    """What became of the last reload: `ok`, with the names of what needs a restart, or why the settings were refused;
    None: there was none."""
    reloaded_s: float | None = None
    """When, seconds since the epoch."""
    admission: str = "{}"
    """The door and the desks as JSON: what `/api/admission` shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSeen:
    """A sampled prompt for the office's search for what breaks prefix caching. It lives in memory alone."""

    id: str
    at_s: float
    engine: str
    model: str
    prompt: Prompt
    answer: str
    """What the engine wrote, as far as it was seen."""
    stands_for: float = 1.0
    """So many prompts: where there are many, most are not sampled."""


Message = Hello | Finished | Pulse | PromptSeen
