"""README and the settings file say what the code does: every table and every command in them, both ways."""

import ast
import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from proxy import cli
from proxy.attribution.findings import RULES
from proxy.attribution.ladder import CLOCK, DISTRUSTED, REPORTED, attribute
from proxy.claims import FIELDS, OF_ONE
from proxy.cli.footing import concerns
from proxy.config import Limit, Section, Settings, Upstream
from proxy.declared import CHANGES
from proxy.exchange import Exchange
from proxy.exporters.contract import to_dict
from proxy.exporters.definitions import COUNT_ERROR, COUNTERS, TIMES
from proxy.exporters.prometheus import PREFIX, Exposition
from proxy.exporters.series import Series
from proxy.loading import load
from proxy.messages import EngineState, Pulse
from proxy.office import app, live, trends
from proxy.office.guard import Guard
from proxy.prefixes.ledger import BINS
from proxy.records import (
    PHASES,
    AdmissionVerdict,
    Class,
    EngineReport,
    Evidence,
    Finished,
    Inferred,
    Outcome,
    PrefixVerdict,
    RequestFacts,
    Timeline,
    TokenCount,
    Usage,
)
from tests.support.records import record
from tests.test_endings import ROWS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
TOML = (ROOT / "config" / "phasegate.toml").read_text("utf-8")
MS = 1_000_000


# --- reading the documents ---


def section(title: str) -> str:
    """A section of README, up to the next heading of any depth."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found is not None, f"README has no section {title}"
    return found[1]


def table(title: str) -> list[list[str]]:
    """The cells of a section's first table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def word(cell: str) -> str:
    return cell.strip("`")


def schema(section: type[Section], path: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every setting as (dotted key, default, docstring); the tables of lists are walked too, their own key left out."""
    docs = docstrings()
    for field in msgspec.structs.fields(section):
        inner = {"upstream": Upstream, "limit": Limit}.get(field.name) if section is Settings else None
        kind = inner or field.type
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from schema(kind, f"{path}{field.name}.")
        else:
            made = field.default_factory is not msgspec.NODEFAULT
            yield f"{path}{field.name}", field.default_factory() if made else field.default, docs[section, field.name]


def docstrings() -> dict[tuple[type[Section], str], str]:
    """(section, field) -> what stands under it in config.py, on one line."""
    tree = ast.parse((ROOT / "proxy" / "config.py").read_text("utf-8"))
    classes = {cls.__name__: cls for cls in [Settings, *Section.__subclasses__()]}
    found = {}
    for node in (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in classes):
        for field, text in itertools.pairwise(node.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                found[classes[node.name], field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return found


SCHEMA = list(schema(Settings))


# --- the two commands, and all others ---


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/phasegate demo",
        "python3 -m venv .venv && .venv/bin/pip install '.[dev]' && .venv/bin/pytest",
    ],
)
def test_the_two_commands_stand_on_lines_of_their_own(command: str) -> None:
    assert f"\n{command}\n" in README


def test_every_verb_is_listed_and_no_other() -> None:
    assert [word(cell) for cell, _ in table("Commands")] == [f"phasegate {verb}" for verb in cli.VERBS]


def test_every_command_and_option_that_is_named_exists() -> None:
    for named in re.findall(r"phasegate ([a-z]+(?: [a-z-]+)*)((?: +--[a-z-]+)*)", README):
        verbs, options = named[0].split(), named[1].split()
        if verbs[0] not in cli.VERBS:
            continue
        command: click.Command = click.Group()
        group: click.Command | None = cli.main
        context = click.Context(cli.main)
        while verbs and isinstance(group, click.Group) and (found := group.get_command(context, verbs[0])):
            command = group = found
            verbs.pop(0)
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(options) <= known, named


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"\]\(([\w./]+)\)", README) + [f"proxy/{name}" for name in re.findall(r"`([\w/]+\.py)`", README)]
    for name in (name.replace("proxy/proxy", "proxy") for name in named):
        assert (ROOT / name).exists(), name


def test_exit_codes_are_the_codes() -> None:
    (codes,) = re.findall(r"^Exit codes: (.*)$", section("Commands"), re.MULTILINE)
    known = (0, cli.GOAL_MISSED, cli.USAGE, cli.UNREACHABLE, cli.INTERRUPTED, cli.UNHEARD)
    assert re.findall(r"\d+", codes) == [str(code) for code in known]


def test_what_serve_prints_has_the_form_of_its_lines() -> None:
    block = re.search(r"```\n(\d\d:.*?)```", README, re.DOTALL)
    assert block is not None
    phases = "|".join(map(re.escape, live.NAMES.values()))
    line = (
        rf"\d\d:\d\d:\d\d \S+ \w+  ~?[\d,]+(\+[\d,]+)? tok( \([\d,]+ cached\))?"
        rf"(  ({phases}) ~?\d+\.\d+)+ s(  \d[\d.]* tok/s)?(  [a-z_]+)*"
    )
    for shown in block[1].splitlines():
        assert re.fullmatch(line, shown), shown


def test_the_demos_excerpt_is_in_the_demos_words() -> None:
    block = re.search(r"```\n(Act 1.*?)```", README, re.DOTALL)
    assert block is not None
    words = "".join((ROOT / "proxy" / "cli" / name).read_text("utf-8") for name in ("demo.py", "programme.py"))
    for shown in block[1].splitlines():
        for phrase in re.findall(r"[A-Za-z][a-z']+(?: [a-z']+)+", shown):
            assert phrase in words, phrase


# --- settings ---


def test_every_setting_is_in_readme_with_its_default_and_its_words() -> None:
    shown = {word(key): (default, words) for key, default, words in table("Settings")}
    assert sorted(shown) == sorted(key for key, _, _ in SCHEMA)
    for key, default, words in SCHEMA:
        assert shown[key][1] == words
        cell = shown[key][0]
        if default is msgspec.NODEFAULT or default is None:
            assert cell == ("required" if default is msgspec.NODEFAULT else "")
        else:
            assert tomllib.loads(f"x = {word(cell)}")["x"] == plain(default), key


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def uncommented() -> str:
    return re.sub(r"^#(?=[a-z\[])", "", TOML, flags=re.MULTILINE)


def flat(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{path}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from flat(value[0], f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def test_the_settings_file_as_it_stands_sets_nothing(tmp_path: Path) -> None:
    assert load(ROOT / "config" / "phasegate.toml", {}, {}).settings == Settings()


def test_the_settings_file_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    file = tmp_path / "phasegate.toml"
    file.write_text(uncommented(), "utf-8")
    assert load(file, {}, {}).settings.upstream
    shown = dict(flat(tomllib.loads(uncommented())))
    assert sorted(shown) == sorted(key for key, _, _ in SCHEMA)
    for key, default, _ in SCHEMA:
        if default is not msgspec.NODEFAULT and default is not None:
            assert shown[key] == plain(default), key


def test_the_settings_file_explains_every_setting_in_the_words_of_the_code() -> None:
    said: dict[str, str] = {}
    head, comment = "", ""
    for line in TOML.splitlines():
        if opened := re.match(r"#?\[+([a-z]+)\]+$", line):
            head = f"{opened[1]}."
        elif line.startswith("# "):
            comment += " " + line[2:]
        elif setting := re.match(r"#([a-z_]+) = ", line):
            said[head + setting[1]] = comment.strip()
        if not line.startswith("# "):
            comment = ""
    assert said == {key: words for key, _, words in SCHEMA}


# --- deployment ---


@pytest.mark.parametrize("file", sorted((ROOT / "deploy").iterdir()), ids=lambda file: file.name)
def test_what_deploys_it_names_settings_that_there_are(file: Path) -> None:
    known = {f"PHASEGATE_{key.upper().replace('.', '_')}" for key, _, _ in SCHEMA} | {"PHASEGATE_UPSTREAM"}
    assert set(re.findall(r"PHASEGATE_[A-Z_]+", file.read_text("utf-8"))) <= known


def test_services_may_take_longer_to_stop_than_streams_to_drain() -> None:
    drain_s = Settings().timeouts.drain_s
    for file, key in (("compose.yaml", r"stop_grace_period: (\d+)s"), ("phasegate.service", r"TimeoutStopSec=(\d+)")):
        (given,) = re.findall(key, (ROOT / "deploy" / file).read_text("utf-8"))
        assert int(given) > drain_s


def test_keys_that_a_reload_does_not_read_anew_are_said_to_want_a_restart() -> None:
    """systemd copies a credential when the service starts, and never again."""
    unit = (ROOT / "deploy" / "phasegate.service").read_text("utf-8")
    (said,) = re.findall(r"((?:^# .*\n)+)#?LoadCredential=", unit, re.MULTILINE)
    assert "restart" in said
    assert "keys (not systemd's copy of a credential)" in section("Settings")


def test_where_the_admin_listener_asks_for_a_token_readme_and_the_warning_say_the_same() -> None:
    (warned,) = concerns(Settings(admin="0.0.0.0:9100", upstream=(Upstream(url="http://e:1"),)))
    assert "all but health checks will be refused" in warned
    (row,) = [what for name, _, what in table("Settings") if word(name) == "admin_token"]
    assert "all but health checks is refused" in row


def test_a_neighbour_in_the_compose_network_may_scrape_it_by_its_name() -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text("utf-8")
    (hosts,) = re.findall(r"PHASEGATE_ADMIN_HOSTS: (\S+)", text)
    guard = Guard.of("0.0.0.0", "t0p", (hosts,))
    assert f"\n  {hosts}:\n" in text
    assert guard.check({"host": f"{hosts}:8801", "authorization": "Bearer t0p"}) is None


def test_what_the_image_installs_is_pinned_with_hashes_and_from_nowhere_in_particular() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    pinned = set(re.findall(r"^([a-z0-9-]+)==\S+", lock, re.MULTILINE))
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {re.split(r"[>=;\[]", each)[0] for each in wanted} <= pinned
    assert len(re.findall(r"==.*\\\n    --hash=sha256:", lock)) == len(pinned)
    assert "://" not in lock


# --- what comes out: metrics, records, the admin listener ---


def families() -> dict[str, tuple[str, str]]:
    """Name on the wire -> (type, definition) of everything that a scrape can hold."""
    engine = EngineState(name="e", kind="vllm", version=None, authority="e:1", answers=True, models=(), slots=None,
                         in_flight=0)  # fmt: skip
    registry = CollectorRegistry()
    Exposition(Series(), lambda: Pulse(at_s=0.0, memory_bytes=1, engines=(engine,)), dict, {}, registry=registry)
    return {
        family.name + ("_total" if family.type == "counter" else ""): (family.type, family.documentation)
        for family in registry.collect()
    }


def labels() -> dict[str, tuple[str, ...]]:
    """Name on the wire -> labels, of the metrics that are made of records."""
    times = {f"{PREFIX}{name}_seconds": it.labels for name, it in TIMES.items()}
    counters = {f"{PREFIX}{name}_total": it.labels for name, it in COUNTERS.items()}
    return {**times, **counters, f"{PREFIX}count_error_ratio": COUNT_ERROR.labels}


def test_every_metric_is_in_readme_with_type_and_definition() -> None:
    shown = {word(name): (kind, definition) for name, kind, _, definition in table("Metrics")}
    assert shown == families()


def test_every_metric_of_records_has_its_labels_in_readme() -> None:
    shown = {word(name): tuple(re.findall(r"`(\w+)`", cell)) for name, _, cell, _ in table("Metrics")}
    assert {name: shown[name] for name in labels()} == labels()


def keys(tree: Any, path: str = "") -> set[str]:
    """Dotted keys, those of phases left out: their names are data."""
    found = set()
    for key, value in tree.items():
        found.add(path + key)
        if isinstance(value, dict) and key != "phases":
            found |= keys(value, f"{path}{key}.")
    return found


def test_the_record_in_readme_is_one_and_what_it_lacks_is_named() -> None:
    block = re.search(r"```json\n(.*?)```", section("Records"), re.DOTALL)
    assert block is not None
    shown = json.loads(block[1])
    whole = record(
        outcome=Outcome.TRUNCATED,
        counted=TokenCount(3, "exact", 3, 3, 3),
        prefix=PrefixVerdict(16, 3, inferred=Inferred(0, 0, 2)),
        usage=Usage(3, 4, 0, 1),
        admission=AdmissionVerdict(predicted_ttft_ns=5),
    )
    known = keys(to_dict(whole))
    named = {name for key in known - keys(shown) for name in [key.rpartition(".")[2]] if key.count(".") <= 1}
    assert keys(shown) <= known
    assert named - set(re.findall(r"`(\w+)`", section("Records"))) <= {key for key in named if f"prefix.{key}" in known}
    assert set(shown["phases"]) <= set(PHASES)
    sums = sum(phase["s"] for phase in shown["phases"].values())
    assert sums == pytest.approx(shown["total_s"], abs=1e-9)


def test_every_page_of_the_admin_listener_is_in_readme() -> None:
    shown = {word(path) for path, _ in table("Admin listener")}
    fixed = set(re.findall(r'Route\("(/[\w/]+)"', (ROOT / "proxy/office/app.py").read_text("utf-8")))
    panels = re.findall(r'"(\w+)": lambda', (ROOT / "proxy/office/main.py").read_text("utf-8"))
    assert shown == fixed | {f"/api/{panel}" for panel in panels}
    filters = dict(table("Admin listener"))["`/api/requests`"]
    assert set(re.findall(r"`(\w+)`", filters)) == {"limit", *app.FILTERS}


# --- what happens: life, endings, phases, findings ---


def test_the_steps_of_life_are_the_codes_own() -> None:
    text = section("Life of a request")
    assert re.search(r"^ +(receive -> .* -> end)$", Exchange.__init__.__globals__["__doc__"], re.MULTILINE)[1] in text  # type: ignore[index]
    steps = re.findall(r"^\d\. `(\w+)`", text, re.MULTILINE)
    assert steps == ["_receive", "_choose", "_weigh", "_enter", "_dispatch", "_pass_on", "_end"]
    assert all(hasattr(Exchange, step) for step in steps)
    sources = "\n".join(file.read_text("utf-8") for file in (ROOT / "proxy").rglob("*.py"))
    for name in re.findall(r"`([A-Z]\w+|authorize|attribute)`", text):
        assert re.search(rf"(class|def) {name}\b", sources), name


def test_every_outcome_stands_in_the_endings_table_with_its_permit_as_played() -> None:
    shown = {(word(outcome), None if not permit else word(permit)) for _, _, permit, outcome in table("Endings")}
    played = {(row.outcome.value, row.permit) for row in ROWS} | {(Outcome.PROXY_ERROR.value, "ignore")}
    assert shown == played
    assert {outcome for outcome, _ in shown} == {outcome.value for outcome in Outcome}


def test_every_change_on_the_way_is_in_readme() -> None:
    assert [word(name) for name, _ in table("What is changed on the way")] == list(CHANGES)


def test_every_finding_is_in_readme() -> None:
    shown = {word(name) for name, _, _ in table("Findings")}
    engine = {*trends.RULES, "means_apart.NAME", "cache_contradicted"}
    ours = {f"{OF_ONE}NAME" if rule.startswith(OF_ONE) else rule for rule in RULES}
    assert shown == {*ours, DISTRUSTED, "impossible.NAME", "not_observed", "attribution_failed", *engine}
    (row,) = [says for name, _, says in table("Findings") if word(name) == "impossible.NAME"]
    assert tuple(re.findall(r"`(\w+)`", row)) == FIELDS


def test_every_bin_of_the_audit_is_in_readme() -> None:
    assert [word(name) for name, _ in table("Prefix audit")] == list(BINS)


LINE = Timeline(
    at_s=0.0, total_ns=900 * MS, admission_ns=MS, dispatched_ns=2 * MS, head_ns=100 * MS, first_byte_ns=300 * MS,
    first_token_ns=300 * MS, first_answer_ns=300 * MS, last_token_ns=800 * MS, last_byte_ns=850 * MS, streamed=True,
    token_events=9, choices=1, done=True,
)  # fmt: skip
PLAIN = LINE._replace(
    head_ns=850 * MS, first_byte_ns=850 * MS, first_token_ns=None, first_answer_ns=None, last_token_ns=None,
    streamed=False, token_events=0, choices=0,
)  # fmt: skip
LINES = (
    LINE,
    PLAIN,
    PLAIN._replace(finish="load"),
    LINE._replace(first_answer_ns=500 * MS),  # thinks, then answers
    LINE._replace(last_token_ns=300 * MS, token_events=1),
    LINE._replace(head_ns=300 * MS),
    LINE._replace(choices=2),
)
EVIDENCE = (
    Evidence(),
    Evidence(slots=2),
    Evidence(ahead=3, slots=2, contended_ns=90 * MS),
    Evidence(ahead=3, contended_ns=90 * MS),
    Evidence(ahead=1, slots=2, busy_ns=900 * MS),
    Evidence(others_done_ns=100 * MS, swapped=True),
    Evidence(others_done_ns=100 * MS),
)
TIMINGS = EngineReport(source="llamacpp.timings", prefill_ns=150 * MS, decode_ns=480 * MS)
REPORTS: dict[str, tuple[EngineReport, ...]] = {
    "ollama": (
        EngineReport(source="ollama.durations", total_ns=790 * MS, load_ns=20 * MS, prefill_ns=100 * MS,
                     decode_ns=450 * MS),
        EngineReport(source="ollama.durations", total_ns=890 * MS, load_ns=400 * MS, prefill_ns=50 * MS,
                     decode_ns=400 * MS),
    ),
    "llamacpp": (TIMINGS, TIMINGS._replace(covers_all=False)),
    "vllm": (EngineReport(source="vllm.metrics", queue_ns=20 * MS, prefill_ns=150 * MS, decode_ns=480 * MS),),
    "sglang": (
        EngineReport(source="sglang.meta_info", frontend_ns=5 * MS, queue_ns=20 * MS, prefill_ns=150 * MS,
                     decode_ns=480 * MS),
    ),
    "openai": (),
}  # fmt: skip
"""Engine -> what it reports; the order is that of README's columns."""


def exchanges(engine: str) -> Iterator[Finished]:
    """Exchanges of every sort that attribution tells apart."""
    outcomes, kinds, versions = (Outcome.COMPLETED, Outcome.CLIENT_GONE), ("chat", "embed"), ("0.33.0", "0.11.0")
    for line, report, evidence, prompts, outcome, kind, version in itertools.product(
        LINES, (None, *REPORTS[engine]), EVIDENCE, (1, 2), outcomes, kinds, versions
    ):
        facts = RequestFacts("openai", kind, "inference", stream=line.streamed, prompts=prompts)
        told = evidence._replace(kind=engine, version=version)
        yield Finished("r", "e", facts, outcome, 200, timeline=line, evidence=told, report=report)


def classes(engine: str) -> dict[str, list[str]]:
    """Phase -> classes that it can have with this engine, the surest first."""
    seen: dict[str, set[Class]] = {}
    for exchange in exchanges(engine):
        for phase in attribute(exchange).phases:
            seen.setdefault(phase.name, set()).add(phase.klass)
    return {name: [klass.value for klass in Class if klass in seen[name]] for name in seen}


def test_the_phases_table_has_every_phase_and_every_engine_that_attribution_knows() -> None:
    assert [word(row[0]) for row in table("Phases")] == list(PHASES)
    assert set(REPORTS) == {*REPORTED, *CLOCK, "openai"}
    assert "| Ollama | llama.cpp | vLLM | SGLang | others |" in section("Phases")


@pytest.mark.parametrize("column", range(5), ids=list(REPORTS))
def test_the_phases_table_says_which_class_a_phase_can_have(column: int) -> None:
    shown = {word(row[0]): row[2 + column].split(", ") for row in table("Phases") if row[2 + column]}
    assert shown == classes(list(REPORTS)[column])


def test_the_engines_that_are_said_to_be_run_have_their_live_tests() -> None:
    (said,) = re.findall(r"^(.*) are run behind phasegate by\n`tests/live`", section("Phases"), re.MULTILINE)
    engines = {"Ollama": "ollama", "llama.cpp": "llamacpp", "vLLM": "vllm", "SGLang": "sglang"}
    run = {name for word, name in engines.items() if word in said}
    assert run == {name for name in engines.values() if (ROOT / "tests" / "live" / f"test_{name}.py").exists()}


def test_readme_is_short_and_speaks_of_the_project_alone() -> None:
    assert len(README.splitlines()) <= 490
    assert not re.search(r"/(home|root|tmp|Users|work)/|\bTODO\b|\bshields\.io\b", README)
