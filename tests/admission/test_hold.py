from proxy.admission.budget import HOUR_S, Budget
from proxy.admission.gcra import Gcra
from proxy.admission.hold import Hold, Now, Spent

NOW = Now(10**12, 36_000.0)


def test_what_was_taken_is_settled_once_with_what_was_used() -> None:
    requests, prompts, budget = Gcra(10), Gcra(1_000), Budget(1_000, HOUR_S)
    hold = Hold(100)
    hold.request(requests, NOW)
    hold.prompt(prompts, NOW)
    hold.tokens(budget, NOW)
    assert (requests.remaining(NOW.ns), prompts.remaining(NOW.ns), budget.remaining(NOW.wall_s)) == (9, 900, 900)
    hold.settle(Spent(NOW, requests=1, prompt=40, total=240))
    hold.settle(Spent(NOW, requests=0, prompt=0, total=0))
    assert (requests.remaining(NOW.ns), prompts.remaining(NOW.ns), budget.remaining(NOW.wall_s)) == (9, 960, 760)


def test_a_hold_that_took_nothing_settles_nothing() -> None:
    Hold(7).settle(Spent(NOW, 1, 7, 7))
