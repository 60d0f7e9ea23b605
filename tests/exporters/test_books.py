from dataclasses import replace

from proxy.exporters.books import BooksExporter
from proxy.records import PrefixVerdict, Usage
from tests.support.records import record

VERDICT = PrefixVerdict(
    block=16,
    tokens=100,
    expected=64,
    attainable=64,
    infinite=64,
    bins=(("hit", 48), ("engine_gap", 16), ("compulsory", 36)),
    reported=48,
)


def entered(**changes: object) -> dict[str, object]:
    books = BooksExporter()
    one = record()
    books.export(replace(one, finished=one.finished._replace(engine="gpu", **changes)))
    return books.report()


def test_a_settled_verdict_is_entered_under_its_engine():
    report = entered(prefix=VERDICT, usage=Usage(100, 5, 48))
    (engine,) = report["engines"]
    assert engine["engine"] == "gpu"
    assert engine["bins"]["hit"] == 48
    assert engine["reported_tokens"] == 48
    assert report["totals"]["prompt_tokens"] == 100


def test_what_no_engine_read_is_not_entered():
    assert entered(prefix=None, usage=Usage(100, 5, 48))["engines"] == []
    assert entered(prefix=VERDICT, usage=None)["engines"] == []
    assert entered(prefix=VERDICT, usage=Usage(None, 5))["engines"] == [], "nor does any metric count it"
    assert entered(prefix=VERDICT._replace(bins=()), usage=Usage(100, 5, 48))["engines"] == []


def test_a_family_has_the_engine_s_own_figures_as_its_engine_has():
    report = entered(prefix=VERDICT._replace(family="f1"), usage=Usage(100, 5, 48))
    (family,) = report["families"]
    assert (family["family"], family["engine"], family["reuse"]) == ("f1", "gpu", 64)
    assert family["prompt_tokens"] == report["engines"][0]["prompt_tokens"] == 100
    assert entered(prefix=VERDICT._replace(family="f1"), usage=None)["families"] == []
