"""All rules together: weigh a request, take what it needs, give back what it did not use. Pure: time is an argument.

Either every rule in force lets a request pass, or nothing is taken from any. A rule that observes is kept as if it were
in force for those that it would let pass; those that it would not are written down and not charged.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from proxy.admission import sizes
from proxy.admission.ask import Ask
from proxy.admission.budget import DAY_S, HOUR_S, Budget
from proxy.admission.counters import Counters, Key, Keys
from proxy.admission.gcra import Gcra
from proxy.admission.hold import Hold, Now
from proxy.admission.quota import Quota
from proxy.admission.refusals import Denial
from proxy.admission.rules import SCOPES, Rule
from proxy.admission.slots import Slots
from proxy.records import AdmissionVerdict

WINDOWS = {"tokens_per_hour": HOUR_S, "tokens_per_day": DAY_S}
RATES = ("requests_per_minute", "tokens_per_minute")

UNLIMITED = 2**31
"""Slots of a rule that is gone."""

LOOKED_AT, SHOWN = 300, 100
"""Counters of each sort that a snapshot looks at, and counters in it: the fullest first. It is taken every second."""

KEY_LENGTH = 1_024
"""Characters of a part of a key that is read from a file: names of models are shorter, the rest is configured."""

SPARED = 256
"""Slots that are kept although nobody has one or waits: they know how long one is held."""


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
    cap: sizes.Cap | None
    """What must be written into the request as its limit of the output: the lowest."""


class Limits:
    """The rules and their counters.

    State: rates, budgets and slots by limit and subject, and decisions so far by (decision, reason, mode).
    """

    __slots__ = ("_budgets", "_rates", "_slots", "decisions", "rules")

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.decisions: Counter[tuple[str, str | None, str]] = Counter()
        self._rates = Counters[Gcra]()
        self._budgets = Counters[Budget]()
        self._slots = Counters[Slots]()

    @property
    def sized(self) -> bool:
        """Whether a rule limits what one request may be: then its body must be read for certain."""
        return any(rule.sized for rule in self.rules)

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
        counters = list(self._counters(now))
        counters.sort(key=lambda counter: counter["remaining"] / counter["allowed"])
        return {
            "rules": [{"name": rule.name, "mode": rule.mode} for rule in self.rules],
            "decisions": [
                {"decision": decision, "reason": reason, "mode": mode, "count": count}
                for (decision, reason, mode), count in sorted(self.decisions.items(), key=str)
            ],
            "counters": counters[:SHOWN],
        }

    def _counters(self, now: Now) -> Iterable[dict[str, Any]]:
        """Some of each sort, as the rules stand now: what a rule counted that is gone is nobody's limit."""
        allowed: dict[Key, int] = {(name, rule.name): limit for rule in self.rules for name, limit in rule.limits()}
        for key, rate in self._rates.some(LOOKED_AT):
            if (limit := allowed.get(key[:2])) is not None:
                yield _shown(key, limit, _changed(rate, limit).remaining(now.ns))
        for key, budget in self._budgets.some(LOOKED_AT):
            if (limit := allowed.get(key[:2])) is not None:
                budget.limit = limit
                yield _shown(key, limit, budget.remaining(now.wall_s))
        for key, slots in self._slots.some(LOOKED_AT):
            if (limit := allowed.get(key[:2])) is not None:
                yield _shown(key, limit, max(0, limit - slots.taken)) | {"waiting": slots.waiting}

    def sweep(self, now: Now) -> None:
        """Throw away some idle counters; a few looks with each request see all of them in time."""
        self._rates.sweep(lambda rate: rate.idle(now.ns))
        self._budgets.sweep(lambda budget: budget.idle(now.wall_s))
        if len(self._slots) > SPARED:
            self._slots.sweep(lambda slots: not slots.taken and not slots.waiting)

    def kept(self) -> Iterator[dict[str, Any]]:
        """The budgets, as JSON, one by one, to be kept over a restart. Rates are full again within a minute."""
        for key, budget in list(self._budgets.items()):
            if not budget.unused:
                yield {"key": list(key), **budget.to_dict()}

    def restore(self, kept: object) -> int:
        """Go on from what `kept` gave, under `budgets`; those of rules that are gone are left out. Returns how many
        things were odd, and left out too."""
        budgets = kept.get("budgets", []) if isinstance(kept, dict) else None
        if not isinstance(budgets, list):
            return 1
        allowed = {(limit, rule.name): getattr(rule, limit) for rule in self.rules for limit in WINDOWS}
        return sum(not self._restored(one, allowed) for one in budgets)

    def _restored(self, one: object, allowed: dict[tuple[str, str], int | None]) -> bool:
        """Whether this was a budget; it is kept if its rule still has one."""
        if not isinstance(one, dict) or (key := _key(one.get("key"))) is None:
            return False
        limit = allowed.get(key[:2])
        budget = Budget(limit or 0, WINDOWS.get(key[0], HOUR_S))
        try:
            budget.restore(one)
        except ValueError:
            return False
        if limit is not None:
            self._budgets.put(key, budget)
        return True

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
        if (allowed := rule.requests_per_minute) is not None:
            hold.request(self._rates.keep(_keys(rule, "requests_per_minute", ask), partial(Gcra, allowed)), now)
        if (allowed := rule.tokens_per_minute) is not None:
            hold.prompt(self._rates.keep(_keys(rule, "tokens_per_minute", ask), partial(Gcra, allowed)), now)
        for name, window_s in WINDOWS.items():
            if (allowed := getattr(rule, name)) is not None:
                hold.tokens(self._budgets.keep(_keys(rule, name, ask), partial(Budget, allowed, window_s)), now)

    # --- counters ---

    def _rate(self, rule: Rule, name: str, allowed: int, ask: Ask) -> Gcra:
        """The counter as it stands; a new one is kept only where something is charged to it."""
        return _changed(self._rates.find(_keys(rule, name, ask)) or Gcra(allowed), allowed)

    def _budget(self, rule: Rule, name: str, allowed: int, ask: Ask) -> Budget:
        budget = self._budgets.find(_keys(rule, name, ask)) or Budget(allowed, WINDOWS[name])
        budget.limit = allowed
        return budget

    def _slot(self, rule: Rule, allowed: int, ask: Ask) -> Slots:
        slots = self._slots.keep(_keys(rule, "max_concurrency", ask), partial(Slots, allowed))
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


def _changed(rate: Gcra, limit: int) -> Gcra:
    if rate.limit != limit:
        rate.change(limit)
    return rate


def _patience(denial: Denial) -> float:
    """How long until this denial is over; for ever where asking again does not help."""
    return float("inf") if denial.wait_ns is None else denial.wait_ns


def _keys(rule: Rule, limit: str, ask: Ask) -> Keys:
    """The key of the request's own counter, and of those that it shares for want of room."""
    models, tenants = ("model",), ("model", "tenant")
    return (limit, *rule.subject(ask)), (limit, *rule.subject(ask, models)), (limit, *rule.subject(ask, tenants))


def _key(kept: object) -> tuple[str, str, *tuple[str, ...]] | None:
    """The key of a budget that was kept; None for what is none."""
    if not isinstance(kept, list) or not 2 <= len(kept) <= 2 + len(SCOPES):
        return None
    if not all(isinstance(part, str) and len(part) <= KEY_LENGTH for part in kept):
        return None
    limit, rule, *subject = kept
    return limit, rule, *subject


def _shown(key: Key, allowed: int, remaining: int) -> dict[str, Any]:
    limit, rule, *subject = key
    return {"limit": limit, "rule": rule, "subject": subject, "allowed": allowed, "remaining": remaining}
