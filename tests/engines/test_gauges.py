import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.gauges import ALIASES, BEGAN, CACHE, MEANS, SAMPLE_BYTES, SAMPLES, Gauges, Total, picked, read

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> Gauges:
    return read(gzip.decompress((GOLDEN / f"{name}_metrics.txt.gz").read_bytes()).decode())


def test_a_page_of_real_vllm() -> None:
    seen = golden("vllm")
    assert (seen.running, seen.waiting, seen.kv_usage, seen.preemptions) == (0, 0, 0, 0)
    assert (seen.prefix_queries, seen.prefix_hits) == (10912, 7616)
    assert seen.totals["ttft"] == Total(sum_s=5.809862852096558, count=40)
    assert set(seen.totals) == set(MEANS)
    assert seen.block_size is not None
    assert seen.block_size > 0
    assert seen.blocks is not None
    assert seen.blocks > 0


def test_what_is_picked_out_of_a_page_is_what_the_whole_says() -> None:
    page = gzip.decompress((GOLDEN / "vllm_metrics.txt.gz").read_bytes())
    whole, some = read(page.decode()), read(picked(page, (CACHE, BEGAN)))
    assert None not in (whole.blocks, whole.began_s)
    assert (some.block_size, some.blocks, some.began_s) == (whole.block_size, whole.blocks, whole.began_s)
    assert read(picked(b"%b 5\r" % BEGAN.encode(), (CACHE, BEGAN))).began_s == 5
    assert picked(b"# HELP " + BEGAN.encode(), (BEGAN,)) == picked(b"", (BEGAN,)) == ""


def test_what_is_picked_out_of_a_hostile_page_is_short() -> None:
    lines = b"%b 5\n" % BEGAN.encode() * 30_000
    assert picked(lines, (BEGAN,)).count("\n") < SAMPLES
    assert len(picked(BEGAN.encode() + b"{" * 1_000_000, (BEGAN,))) <= SAMPLE_BYTES


def test_a_name_may_hold_what_other_texts_take_for_a_line_end() -> None:
    seen = read(
        'vllm:num_requests_running{model_name="a\u2028b\x85c"} 3\nvllm:num_requests_waiting{model_name="x"} 4\n'
    )
    assert (seen.running, seen.waiting) == (3, 4)


def test_a_page_of_real_llama_cpp() -> None:
    seen = golden("llamacpp")
    assert (seen.running, seen.waiting) == (0, 0)
    assert (seen.prefix_queries, seen.prefix_hits) == (5566 + 4969, 4969)
    assert (seen.kv_usage, seen.totals, seen.block_size) == (None, {}, None)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc", "kv_usage"),
        ("vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits_total", "prefix_hits"),
        ("vllm:gpu_prefix_cache_queries", "vllm:prefix_cache_queries_total", "prefix_queries"),
        ("sglang:num_queue_reqs", "vllm:num_requests_waiting", "waiting"),
    ],
)
def test_every_name_that_a_figure_ever_had_is_understood(old: str, new: str, field: str) -> None:
    for name in (old, new):
        assert getattr(read(f"{name} 0.25"), field) == 0.25


def test_the_older_name_of_a_mean_is_understood_and_the_newer_wins() -> None:
    old = "vllm:time_per_output_token_seconds_sum 3\nvllm:time_per_output_token_seconds_count 2\n"
    new = "vllm:inter_token_latency_seconds_sum 5\nvllm:inter_token_latency_seconds_count 4\n"
    assert read(old).totals["itl"] == Total(sum_s=3, count=2)
    assert read(old + new).totals["itl"] == Total(sum_s=5, count=4)


def test_data_parallel_engines_are_summed_and_the_fullest_cache_counts() -> None:
    page = "\n".join(
        f'vllm:{name}{{engine="{engine}",model_name="a}} {{b"}} {value} 1700000000000'
        for name, values in (("num_requests_running", (2, 3)), ("kv_cache_usage_perc", (0.2, 0.7)))
        for engine, value in enumerate(values)
    )
    seen = read(page)
    assert (seen.running, seen.kv_usage) == (5, 0.7)


def test_cache_settings_stand_in_labels() -> None:
    page = 'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="%s"} 1.0'
    assert (read(page % "4096").block_size, read(page % "4096").blocks) == (16, 4096)
    assert read(page % "None").blocks is None


def test_a_half_of_a_histogram_is_none() -> None:
    assert read("vllm:time_to_first_token_seconds_sum 3").totals == {}


@pytest.mark.parametrize("value", ["1e308", "-1e308", str(2**53)])
def test_a_sum_that_no_engine_can_have_counted_is_none(value: str) -> None:
    page = "vllm:time_to_first_token_seconds_sum 3\nvllm:time_to_first_token_seconds_count 2\n"
    assert read(page).totals["ttft"].count == 2
    for name in ("sum", "count"):
        assert read(f'{page}vllm:time_to_first_token_seconds_{name}{{engine="1"}} {value}').totals == {}


@pytest.mark.parametrize("line", ["vllm:num_requests_running NaN", "vllm:num_requests_running many", "{} 3", "", "# x"])
def test_what_is_no_sample_is_left_out(line: str) -> None:
    assert read(line) == Gauges(totals={})


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read(text)
    read(f"vllm:num_requests_running{{{text}}} 1")


def test_a_number_of_any_length_can_be_read() -> None:
    said = "9" * 5_000
    page = (
        f'vllm:cache_config_info{{block_size="{said}",num_gpu_blocks="{said}"}} 1\nvllm:num_requests_running {said}\n'
    )
    assert read(page).block_size is None


def test_every_alias_is_a_field() -> None:
    assert set(ALIASES) < set(Gauges.__slots__)
