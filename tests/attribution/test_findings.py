import pytest

from proxy.attribution.findings import findings
from proxy.records import Class, EngineReport, Evidence, Phase, PhaseBreakdown, TokenCount, Usage
from tests.support.records import MS, breakdown, finished

NOTHING = PhaseBreakdown(())


def counted(low: int) -> TokenCount:
    return TokenCount(low + 100, "estimated", low, low + 200, low)


@pytest.mark.parametrize(("ms", "cold"), [(52, False), (145, False), (299, False), (300, True), (30_000, True)])
def test_a_load_is_cold_from_300_ms_on(ms: int, cold: bool) -> None:
    loaded = PhaseBreakdown((Phase("load", ms * MS, Class.MEASURED, "ollama.durations"),))
    assert ("cold_load" in findings(finished(), loaded)) is cold


@pytest.mark.parametrize(
    ("kind", "version", "low", "reported", "cut"),
    [
        pytest.param("ollama", "0.33.0", 30_000, 8194, True, id="half of the window is left"),
        pytest.param("ollama", None, 9000, 2050, True, id="version unknown"),
        pytest.param("ollama", "0.0.0", 9000, 2050, True, id="a build of unknown age"),
        pytest.param("ollama", "0.33.0", 1000, 900, False, id="within the template's share"),
        pytest.param("ollama", "0.33.0", 200, 20, False, id="too few to tell"),
        pytest.param("ollama", "0.3.14", 9000, 20, False, id="counts fresh tokens only"),
        pytest.param("ollama", "0.30.0", 9000, 20, False, id="counts fresh tokens only, again"),
        pytest.param("ollama", "0.30.1", 9000, 20, True, id="counts all"),
        pytest.param("vllm", None, 9000, 2050, False, id="an engine that does not cut"),
    ],
)
def test_a_prompt_was_cut_when_far_fewer_tokens_were_read(
    kind: str, version: str | None, low: int, reported: int, cut: bool
) -> None:
    done = finished(evidence=Evidence(kind=kind, version=version), counted=counted(low), usage=Usage(reported, 5))
    assert ("context_truncated" in findings(done, NOTHING)) is cut


def test_without_both_counts_nothing_is_said_of_the_context() -> None:
    assert findings(finished(counted=counted(9000), usage=None), NOTHING) == ()
    assert findings(finished(counted=counted(9000), usage=Usage(None, 5)), NOTHING) == ()
    assert findings(finished(counted=None), NOTHING) == ()


@pytest.mark.parametrize(
    ("dialect", "kind", "options", "ignored"),
    [
        ("openai", "ollama", (("num_ctx", "32768"),), True),
        ("ollama", "ollama", (("num_ctx", "32768"),), False),
        ("openai", "vllm", (("num_ctx", "32768"),), False),
        ("openai", "ollama", (("num_gpu", "1"),), False),
    ],
)
def test_a_window_asked_for_where_nobody_looks(
    dialect: str, kind: str, options: tuple[tuple[str, str], ...], ignored: bool
) -> None:
    done = finished(dialect=dialect, options=options, evidence=Evidence(kind=kind))
    assert ("num_ctx_ignored" in findings(done, NOTHING)) is ignored


def test_findings_of_all_rooms_are_kept_each_once() -> None:
    done = finished(findings=("a", "b"))
    assert findings(done, PhaseBreakdown((), findings=("b", "c"))) == ("a", "b", "c")
    assert findings(finished(), breakdown(finished())) == ()


FIRST = EngineReport(source="llamacpp.timings", covers_all=False)


@pytest.mark.parametrize(
    ("kind", "n", "prompts", "report", "usage", "of_one"),
    [
        pytest.param("llamacpp", 2, 1, FIRST, Usage(33, 20, 0), ["output"], id="the prompt is one"),
        pytest.param("llamacpp", 1, 2, FIRST, Usage(7, 16, 0), ["prompt", "cached", "output"], id="of the first"),
        pytest.param("llamacpp", 1, 2, FIRST, None, [], id="nothing is said"),
        pytest.param("llamacpp", 1, 2, None, Usage(9, 0), [], id="embeddings are summed up"),
        pytest.param("vllm", 1, 2, None, Usage(124, 10, 0), ["cached"], id="vLLM sums up what it made"),
        pytest.param("vllm", 1, 2, None, Usage(124, 10), [], id="vLLM, silent of its cache"),
        pytest.param("vllm", 3, 1, None, Usage(31, 15, 0), [], id="vLLM, choices"),
    ],
)
def test_what_is_said_of_one_prompt_or_choice_of_several(
    kind: str, n: int, prompts: int, report: EngineReport | None, usage: Usage | None, of_one: list[str]
) -> None:
    done = finished(evidence=Evidence(kind=kind), usage=usage, report=report)
    done = done._replace(facts=done.facts._replace(n=n, prompts=prompts))
    assert findings(done, NOTHING) == tuple(f"of_one.{name}_tokens" for name in of_one)
