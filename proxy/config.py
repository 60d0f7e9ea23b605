"""The settings that there are: one frozen tree, and what each value may be.

Every error names its key. The tree stops at the composition root: cores get plain values. Where its values come from is
`loading`.
"""

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from proxy.flaws import Flaw, Unfit
from proxy.grammar import is_credential, is_field, is_text, place, split_address, texts
from proxy.plain import without_user

MASK = "********"
SECRETS = frozenset({"api_key", "admin_token"})
"""Keys whose values are never shown."""


LEAST = {
    **dict.fromkeys(("body_limit_bytes", "event_limit_bytes", "max_prompt_tokens", "max_output_tokens"), 1),
    **dict.fromkeys(("max_concurrency", "requests_per_minute", "tokens_per_minute"), 1),
    **dict.fromkeys(("tokens_per_hour", "tokens_per_day"), 1),
}
"""Least value of a numeric setting; of all others it is 0."""
PERIODS = {
    "scrape_s": 0.5,
    "body_s": 0.001,
    "connect_s": 0.001,
    "first_byte_s": 0.001,
    "idle_s": 0.001,
    "total_s": 0.001,
    "drain_s": 0.001,
    "queue_timeout_s": 0.001,
    "store_days": 0.001,
}
"""Least value of a time that is not 0: a look at an engine costs milliseconds of both, and a limit below one is met by
nobody."""
LARGEST = 10**12
"""Largest value of any: a terabyte, 30,000 years. Timers and databases overflow above 2**63 milliseconds or bytes."""


Kind = Literal["auto", "openai", "vllm", "sglang", "llamacpp", "ollama"]
Mode = Literal["off", "observe", "enforce"]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all sections: frozen, and strict about unknown keys, about numbers, and about text."""

    def __post_init__(self) -> None:
        if flaws := (*self.flaws(),):
            raise Unfit(*flaws)

    def flaws(self) -> Iterator[Flaw]:
        """What is wrong with its own values, each by itself."""
        for key in self.__struct_fields__:
            if what := _odd(key, getattr(self, key)):
                yield Flaw(key, what)


def _odd(key: str, value: Any) -> str:
    """What is wrong with a value, whichever section it stands in; empty: nothing."""
    least = LEAST.get(key, 0)
    if isinstance(value, int | float) and not least <= value <= LARGEST:  # NaN is nowhere between
        return f"{value} is no number from {least} to {LARGEST:,}"
    if key in PERIODS and 0 < value < PERIODS[key]:
        return f"{value} is neither 0 nor {PERIODS[key]} or more"
    if not all(map(is_text, texts(value))):
        return "holds a line end or another character that cannot be printed"
    if key in SECRETS and value and not is_credential(value):
        return "holds blanks at an end, or what is no ASCII: it could not be sent in a header"
    return ""


class Upstream(Section, frozen=True):
    """One engine behind the proxy."""

    url: str
    """`http://host:port`, or https."""
    name: str = ""
    """Label in records and metrics; empty: host and port of the url."""
    kind: Kind = "auto"
    """Engine type: `openai`, `vllm`, `sglang`, `llamacpp`, `ollama`; `auto` finds out."""
    models: tuple[str, ...] = ()
    """Models it serves; empty: what it lists."""
    api_key: str = ""
    """Sent to the engine as `Authorization: Bearer` in place of the client's key."""
    ca_file: str = ""
    """PEM file of the CA that signed the engine's certificate; empty: the system's."""
    slots: int = 0
    """Requests that the engine works on at once (OLLAMA_NUM_PARALLEL, --parallel); 0: found out."""
    block_size: int = 0
    """Tokens a block of its prefix cache; 0: found out, and SGLang's single tokens are followed in eights."""
    cache_tokens: int = 0
    """Tokens its prefix cache holds; 0: found out."""

    def flaws(self) -> Iterator[Flaw]:
        """Those of all sections, and a url that is no engine's root."""
        yield from super().flaws()
        host, rest = place(self.url)
        if "@" in self.url:  # before anything that shows it
            yield Flaw("url", f"{without_user(self.url)!r} holds credentials; use api_key")
        elif not host:
            yield Flaw("url", f"{self.url!r} is not http://host:port or https://host:port")
        elif rest not in ("", "/"):
            yield Flaw("url", f"{self.url!r} has a path; give the engine's root, clients add the path")

    @property
    def label(self) -> str:
        """The name, or host and port."""
        return self.name or urlsplit(self.url).netloc


class Timeouts(Section, frozen=True):
    """Limits in seconds; 0: no limit."""

    body_s: float = 60.0
    """Between two reads of a request's body that is held until it is whole: what is held takes memory."""
    connect_s: float = 5.0
    """To a connection with the engine."""
    first_byte_s: float = 1800.0
    """From dispatch to the answer's first byte. Long on purpose: a prefill may take minutes, and without streaming the
    whole answer counts."""
    idle_s: float = 300.0
    """Between two reads of an answer. An engine that parses a tool call is silent meanwhile."""
    total_s: float = 0.0
    """From dispatch to the end of the answer."""
    drain_s: float = 30.0
    """From SIGTERM until running streams are cut."""


class Tokens(Section, frozen=True):
    """How prompts are counted before they are sent."""

    count: bool = True
    """Count at all. Without it no limit on prompts holds."""
    vocabulary: Literal["cl100k_base", "o200k_base"] = "cl100k_base"
    """What a prompt is counted with; the engine's answers correct it."""
    models: dict[str, str] = {}
    """Model -> its vocabulary by name, or the path of its `tokenizer.json` (extra `hf`); `*` is every other model."""
    ask_engine: bool = False
    """Ask the engine's own tokenizer (vLLM, SGLang, llama.cpp): exact, at the cost of a round trip per request."""


class Prefixes(Section, frozen=True):
    """The prefix audit."""

    audit: bool = True
    """Tell where every prompt token comes from, and look for text that breaks the cache."""
    capture_text: bool = False
    """Show what breaks the cache as it is. Otherwise excerpts are masked by kind of character."""
    key_file: str = ""
    """File with the key of all hashes, made if it is missing; empty: a new key for each process."""
    exact_ids: bool = False
    """Audit in vLLM's own token ids: fetched from `/tokenize` before each request (a round trip more), and asked for in
    the request."""

    @property
    def asks_ids(self) -> bool:
        """Whether vLLM is asked for a prompt's token ids: they are for the audit alone."""
        return self.exact_ids and self.audit


class Tenants(Section, frozen=True):
    """Who asks. Without keys file and header there are no tenants, and everything is open."""

    keys_file: str = ""
    """File of hashed client keys (`phasegate config keys add`); a client sends its key as a bearer token. A file that
    holds no key lets nobody in."""
    header: str = ""
    """Header that names the tenant, believed from `networks` alone."""
    networks: tuple[str, ...] = ()
    """Networks from which the header is believed, as `10.0.0.0/8`."""

    def flaws(self) -> Iterator[Flaw]:
        """Those of all sections, and a header that is none."""
        yield from super().flaws()
        if self.header and not is_field(self.header):
            yield Flaw("header", f"{self.header!r} is no name of a header")


class Limit(Section, frozen=True):
    """One rule. What is not given is not limited."""

    name: str
    """Told to the client that it refuses."""
    mode: Mode = "enforce"
    """`off`, `observe` (decisions are only written down) or `enforce`."""
    models: tuple[str, ...] = ()
    """Names or patterns (`llama*`) of models that it applies to, however they are spelt (`llama3` is `Llama3:latest`);
    empty: all. A body that names no model may mean any; so may a name that is not listed where the engine answers to it
    all the same."""
    tenants: tuple[str, ...] = ()
    """Names or patterns of tenants; empty: all."""
    kinds: tuple[str, ...] = ()
    """`chat`, `completion`, `generate`, `embed`, ...; empty: all."""
    per: tuple[Literal["engine", "model", "tenant"], ...] = ()
    """Count for each `engine`, `model` or `tenant` by itself; empty: one counter for all. Models that the engine does
    not list share one."""
    max_prompt_tokens: int | None = None
    """Longest prompt. Prompts within the count's error pass; bodies that engines may read differently are refused (no
    JSON, `Messages`, a name twice, a template of its own)."""
    max_output_tokens: int | None = None
    """Longest output that may be asked for, by each choice. A body that sets no limit which the engine heeds (none, 0,
    -1) asks for more."""
    cap_output: bool = False
    """Cap what asks for more, in place of refusing it."""
    within_window: bool = False
    """Refuse what the engine's context window cannot hold."""
    max_concurrency: int | None = None
    """Requests at once."""
    queue_length: int = 0
    """Places for those who wait for `max_concurrency`."""
    queue_timeout_s: float = 30.0
    """Longest wait there."""
    requests_per_minute: int | None = None
    """Rate of requests."""
    tokens_per_minute: int | None = None
    """Rate of prompt tokens."""
    tokens_per_hour: int | None = None
    """Prompt and output tokens by the hour of the clock (UTC). What the engine does not state is counted as it was
    seen."""
    tokens_per_day: int | None = None
    """The same by the day."""


class Metrics(Section, frozen=True):
    """Bounds on what Prometheus is given."""

    models: int = 40
    """Model names that get a label of their own; the rest share `other`."""
    tenants: int = 20
    """Tenants that get a label of their own; the rest share `other`."""


class Settings(Section, frozen=True):
    """Everything that can be set."""

    listen: str = "127.0.0.1:8800"
    """Data listener: what clients talk to."""
    admin: str = "127.0.0.1:8801"
    """Admin listener: metrics, health, records."""
    admin_token: str = ""
    """Bearer token of the admin listener; off loopback all but health checks is refused without one."""
    admin_hosts: tuple[str, ...] = ()
    """Host names under which the admin listener may be asked, beside its address and localhost."""
    records: str = ""
    """File that gets one JSON line per request; empty: none. Reopened on SIGHUP."""
    store: str = ""
    """SQLite file that gets one row per request; empty: none."""
    store_days: float = 30.0
    """Rows older than this are removed from the store; 0: kept."""
    store_mb: int = 1024
    """The store's size limit in megabytes; oldest rows go first; 0: none."""
    quiet: bool = False
    """No line per request on the terminal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged (to stderr): `debug`, `info`, `warning` or `error`."""
    log_json: bool = False
    """Log lines as JSON."""
    body_limit_bytes: int = 64 * 1024 * 1024
    """Largest JSON body of an inference request, which is buffered; other bodies stream through without a limit."""
    event_limit_bytes: int = 4 * 1024 * 1024
    """Largest event that is read along; of a larger one, and of a body over 1 MB that is no stream, only a body's two
    ends are read."""
    ask_usage: bool = True
    """Ask for usage in streams that tell it only on demand, and take the added event out."""
    ask_meta_info: bool = False
    """Ask SGLang for its own times in answers that are no streams, and take them out."""
    server_timing: bool = False
    """Tell clients the times known by then: `Server-Timing` with answers, a comment before a stream's end."""
    scrape_s: float = 5.0
    """Seconds between two looks at an engine's own metrics; 0: never."""
    state: str = ""
    """File that keeps budgets and what counting has learnt over a restart, written every 30 s and at the end; empty:
    they start anew."""
    upstream: tuple[Upstream, ...] = ()
    """The engines; none: looked for on this machine."""
    limit: tuple[Limit, ...] = ()
    """Rules for who may ask how much."""
    timeouts: Timeouts = Timeouts()
    tokens: Tokens = Tokens()
    prefixes: Prefixes = Prefixes()
    tenants: Tenants = Tenants()
    metrics: Metrics = Metrics()

    def flaws(self) -> Iterator[Flaw]:
        """Those of all sections, and addresses that are none."""
        yield from super().flaws()
        for key in ("listen", "admin"):
            try:
                split_address(getattr(self, key))
            except ValueError as error:
                yield Flaw(key, str(error))


def leaves(section: Section, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting as (dotted key, value); lists of tables are one setting."""
    for key in section.__struct_fields__:
        value = getattr(section, key)
        if isinstance(value, Section):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def masked(value: Any, key: str = "") -> Any:
    """The same as plain JSON-able values, secrets masked."""
    if key in SECRETS:
        return MASK if value else ""
    if isinstance(value, Section):
        return {name: masked(getattr(value, name), name) for name in value.__struct_fields__}
    if isinstance(value, tuple | list):
        return [masked(item, key) for item in value]
    return value
