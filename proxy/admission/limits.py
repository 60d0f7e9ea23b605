"""All rules together: weigh a request, take what it needs, give back what it did not use. Pure: time is an argument.

Either every rule in force lets a request pass, or nothing is taken from any. A rule that observes is kept as if it were
in force for those that it would let pass; those that it would not are written down and not charged.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from proxy.admission import sizes
from proxy.admission.ask import Ask
from proxy.admission.budget import DAY_S, HOUR_S, Budget
from proxy.admission.gcra import Gcra
from proxy.admission.quota import Quota
from proxy.admission.refusals import Denial
from proxy.admission.rules import Rule
from proxy.admission.slots import Slots
from proxy.records import AdmissionVerdict

WINDOWS = {"tokens_per_hour": HOUR_S, "tokens_per_day": DAY_S}
RATES = ("requests_per_minute", "tokens_per_minute")

COUNTERS = 4_096
"""Counters kept at most before idle ones are thrown away: clients can invent model names, but no open charge."""

SWEEP_NS = 1_000_000_000
"""Time between two looks for idle ones."""

UNLIMITED = 2**31
"""Slots of a rule that is gone."""

SHOWN = 100
"""Counters in a snapshot; the fullest first."""

Key = tuple[str, ...]


class Now(NamedTuple):
    """The time by both clocks."""

    ns: int
    """Monotonic, for rates."""
    wall_s: float
    """Since the epoch, for budgets."""


class Spent(NamedTuple):
    """What a request has used, when it ended."""

    now: Now
    requests: int
    prompt: int
    total: int


@dataclass(frozen=True, slots=True)
class Weighed:
    """What the rules say of a request, without anything taken. Slots are not in it: one can wait for those."""

    refusal: Denial | None
    """By a rule in force: the one that takes longest to change its mind."""
    observed: Denial | None
    """By the first rule that only observes."""
    rules: tuple[Rule, ...]
    """Those that let it pass, and will be charged."""
    mode: str
    """The strictest mode of all rules that apply; `off`: none does."""
    cap: int | None
    """Output tokens that must be written into the request as its limit."""


class Hold:
    """What one admitted request has taken.

    State: what is still to be settled.
    """

    __slots__ = ("_settlements", "n")

    def __init__(self, n: int) -> None:
        self.n = n
        """Prompt tokens charged until the engine has spoken."""
        self._settlements: list[Callable[[Spent], None]] = []

    def add(self, settlement: Callable[[Spent], None]) -> None:
        """Something that must hear of the end."""
        self._settlements.append(settlement)

    def settle(self, spent: Spent) -> None:
        """The request has ended; only the first call counts."""
        settlements, self._settlements = self._settlements, []
        for settlement in settlements:
            settlement(spent)


class Limits:
    """The rules and their counters.

    State: rates, budgets and slots by limit and subject, decisions so far by (decision, reason, mode), and when idle
    counters were last looked for.
    """

    __slots__ = ("_budgets", "_rates", "_slots", "_swept_ns", "decisions", "rules")

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.decisions: Counter[tuple[str, str | None, str]] = Counter()
        self._rates: dict[Key, Gcra] = {}
        self._budgets: dict[Key, Budget] = {}
        self._slots: dict[Key, Slots] = {}
        self._swept_ns = 0

    def replace(self, rules: Iterable[Rule]) -> None:
        """Other rules from now on. Counters of limits that stay go on; what is held is settled where it was taken.

        Slots change at once, for somebody may wait for them: a limit that is gone, or no longer in force, holds nobody.
        """
        self.rules = tuple(rules)
        limits = {rule.name: rule.max_concurrency for rule in self.rules if rule.mode == "enforce"}
        for (_, name, *_), slots in self._slots.items():
            slots.limit = limits.get(name) or UNLIMITED

    def weigh(self, ask: Ask, now: Now) -> Weighed:
        """What the rules say of this request. Takes nothing."""
        judged = [(rule, tuple(self._denials(rule, ask, now))) for rule in self.rules if rule.applies(ask)]
        enforced = [denial for rule, denials in judged if rule.mode == "enforce" for denial in denials]
        observed = [denial for rule, denials in judged if rule.mode == "observe" for denial in denials]
        caps = [cap for rule, _ in judged if (cap := sizes.cap(rule, ask)) is not None]
        return Weighed(
            refusal=max(enforced, key=_patience, default=None),
            observed=observed[0] if observed else None,
            rules=tuple(rule for rule, denials in judged if not denials),
            mode=min((rule.mode for rule, _ in judged), default="off"),  # "enforce" < "observe"
            cap=min(caps, default=None),
        )

    def take(self, weighed: Weighed, ask: Ask, now: Now) -> Hold:
        """Charge rates and budgets of the rules that let the request pass."""
        hold = Hold(ask.n)
        for rule in weighed.rules:
            self._charge(hold, rule, ask, now)
        return hold

    def gates(self, weighed: Weighed, ask: Ask) -> list[tuple[Rule, Slots]]:
        """The slots that the request needs, with the rules that limit them."""
        return [
            (rule, self._slot(rule, rule.max_concurrency, ask))
            for rule in weighed.rules
            if rule.max_concurrency is not None
        ]

    def note(self, verdict: AdmissionVerdict) -> AdmissionVerdict:
        """Count a decision."""
        self.decisions[verdict.decision, verdict.reason, verdict.mode] += 1
        return verdict

    def quotas(self, ask: Ask, now: Now) -> tuple[Quota | None, Quota | None]:
        """What is left of requests and of tokens for this client: the limit in force that is nearest to its end."""
        requests, tokens = [], []
        for rule in self.rules:
            if rule.mode == "enforce" and rule.applies(ask):
                requests += self._rate_quotas(rule, "requests_per_minute", ask, now)
                tokens += self._rate_quotas(rule, "tokens_per_minute", ask, now)
                tokens += self._budget_quotas(rule, ask, now)
        return min(requests, key=Quota.share, default=None), min(tokens, key=Quota.share, default=None)

    def snapshot(self, now: Now) -> dict[str, Any]:
        """Decisions, and how full the counters are; as JSON."""
        counters = [
            *(_shown(key, rate.limit, rate.remaining(now.ns)) for key, rate in self._rates.items()),
            *(_shown(key, budget.limit, budget.remaining(now.wall_s)) for key, budget in self._budgets.items()),
            *(
                _shown(key, slots.limit, max(0, slots.limit - slots.taken)) | {"waiting": slots.waiting}
                for key, slots in self._slots.items()
            ),
        ]
        counters.sort(key=lambda counter: counter["remaining"] / counter["allowed"])
        return {
            "rules": [{"name": rule.name, "mode": rule.mode} for rule in self.rules],
            "decisions": [
                {"decision": decision, "reason": reason, "mode": mode, "count": count}
                for (decision, reason, mode), count in sorted(self.decisions.items(), key=str)
            ],
            "counters": counters[:SHOWN],
        }

    def sweep(self, now: Now) -> None:
        """Throw idle counters away where there are too many, once a second at most."""
        if len(self._rates) + len(self._budgets) + len(self._slots) <= COUNTERS or now.ns - self._swept_ns < SWEEP_NS:
            return
        self._swept_ns = now.ns
        self._rates = {key: rate for key, rate in self._rates.items() if not rate.idle(now.ns)}
        self._budgets = {key: one for key, one in self._budgets.items() if not one.idle(now.wall_s)}
        self._slots = {key: slots for key, slots in self._slots.items() if slots.taken or slots.waiting}

    def to_dict(self) -> dict[str, Any]:
        """The budgets, as JSON, to be kept over a restart. Rates are full again within a minute."""
        return {"budgets": [{"key": list(key), **budget.to_dict()} for key, budget in self._budgets.items()]}

    def restore(self, kept: dict[str, Any]) -> None:
        """Go on from what `to_dict` gave; budgets of rules that are gone are left out."""
        rules = {rule.name: rule for rule in self.rules}
        for one in kept.get("budgets", ()):
            name, rule, *_ = key = tuple(map(str, one["key"]))
            allowed = getattr(rules.get(rule), name, None) if name in WINDOWS else None
            if allowed is not None:
                budget = self._budgets[key] = Budget(allowed, WINDOWS[name])
                budget.restore(one)

    # --- one rule ---

    def _denials(self, rule: Rule, ask: Ask, now: Now) -> Iterable[Denial]:
        """Sizes first, then rates, then budgets; only limits that the rule has."""
        if (denial := sizes.too_large(rule, ask)) is not None:
            yield denial
        for name, units in zip(RATES, (1, ask.low), strict=True):
            allowed = getattr(rule, name)
            if allowed is not None and (wait_ns := self._rate(rule, name, allowed, ask).wait_ns(now.ns, units)):
                yield Denial(rule, name, allowed, units, wait_ns)
        for name in WINDOWS:
            allowed = getattr(rule, name)
            if allowed is not None and (wait_s := self._budget(rule, name, allowed, ask).wait_s(now.wall_s, ask.low)):
                yield Denial(rule, name, allowed, ask.low, round(wait_s * 1e9))

    def _charge(self, hold: Hold, rule: Rule, ask: Ask, now: Now) -> None:
        if rule.requests_per_minute is not None:
            rate = self._rate(rule, "requests_per_minute", rule.requests_per_minute, ask)
            hold.add(_settle_requests(rate, rate.charge(now.ns, 1)))
        if rule.tokens_per_minute is not None:
            rate = self._rate(rule, "tokens_per_minute", rule.tokens_per_minute, ask)
            hold.add(_settle_prompt(rate, rate.charge(now.ns, ask.n), ask.n))
        for name in WINDOWS:
            if (allowed := getattr(rule, name)) is not None:
                budget = self._budget(rule, name, allowed, ask)
                hold.add(_settle_total(budget, budget.charge(now.wall_s, ask.n), ask.n))

    # --- counters ---

    def _rate(self, rule: Rule, name: str, allowed: int, ask: Ask) -> Gcra:
        rate = self._rates.setdefault((name, *rule.subject(ask)), Gcra(allowed))
        if rate.limit != allowed:
            rate.change(allowed)
        return rate

    def _budget(self, rule: Rule, name: str, allowed: int, ask: Ask) -> Budget:
        budget = self._budgets.setdefault((name, *rule.subject(ask)), Budget(allowed, WINDOWS[name]))
        budget.limit = allowed
        return budget

    def _slot(self, rule: Rule, allowed: int, ask: Ask) -> Slots:
        slots = self._slots.setdefault(("max_concurrency", *rule.subject(ask)), Slots(allowed))
        slots.limit = allowed
        return slots

    def _rate_quotas(self, rule: Rule, name: str, ask: Ask, now: Now) -> list[Quota]:
        if (allowed := getattr(rule, name)) is None:
            return []
        rate = self._rate(rule, name, allowed, ask)
        return [Quota(allowed, rate.remaining(now.ns), rate.full_ns(now.ns))]

    def _budget_quotas(self, rule: Rule, ask: Ask, now: Now) -> list[Quota]:
        budgets = [
            self._budget(rule, name, allowed, ask) for name in WINDOWS if (allowed := getattr(rule, name)) is not None
        ]
        return [Quota(b.limit, b.remaining(now.wall_s), round(b.ends_s(now.wall_s) * 1e9)) for b in budgets]


def _patience(denial: Denial) -> float:
    """How long until this denial is over; for ever where asking again does not help."""
    return float("inf") if denial.wait_ns is None else denial.wait_ns


def _shown(key: Key, allowed: int, remaining: int) -> dict[str, Any]:
    limit, rule, *subject = key
    return {"limit": limit, "rule": rule, "subject": subject, "allowed": allowed, "remaining": remaining}


def _settle_requests(rate: Gcra, charge: int) -> Callable[[Spent], None]:
    return lambda spent: rate.settle(spent.now.ns, charge, 1, spent.requests)


def _settle_prompt(rate: Gcra, charge: int, n: int) -> Callable[[Spent], None]:
    return lambda spent: rate.settle(spent.now.ns, charge, n, spent.prompt)


def _settle_total(budget: Budget, window: int, n: int) -> Callable[[Spent], None]:
    return lambda spent: budget.settle(window, n, spent.total)
