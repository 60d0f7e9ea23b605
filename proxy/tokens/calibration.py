"""What the engine's answers teach about our count: a weight per thing that costs tokens, and a band around the sum.

A Kalman filter over the features of `tokens.sample`: the weights are its state and walk slowly, so that another
tokenizer behind the same name is learnt in its turn; each answer's true prompt tokens are one observation. The band is
that of conformal prediction: the filter says how sure it is of this very prompt, and a quantile of its recent errors
says how far such words can be trusted.

Pure: no clock, no text. Sizes are tokens.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from math import ceil, floor, sqrt
from operator import mul
from typing import Any, NamedTuple

from proxy.tokens.sample import FEATURES, Sample
from proxy.tokens.shapes import fewest

PRIOR = {
    "tokens": (1.0, 0.15),
    "common": (0.0, 0.1),
    "rare_10": (0.0, 0.2),
    "rare_30": (0.0, 0.2),
    "rare_70": (0.0, 0.2),
    "rare_90": (0.0, 0.2),
    "words": (0.0, 0.1),
    "spaced": (0.0, 0.1),
    "letters": (0.0, 0.03),
    "capitals": (0.0, 0.1),
    "digits": (0.1, 0.3),
    "mixed": (0.0, 0.1),
    "marks": (0.0, 0.1),
    "quotes": (0.0, 0.1),
    "underscores": (0.0, 0.1),
    "slashes": (0.0, 0.1),
    "spaces": (0.0, 0.05),
    "tabs": (0.0, 0.1),
    "lines": (0.0, 0.2),
    "indented": (0.0, 0.2),
    "foreign": (0.0, 0.15),
    "latin": (0.0, 0.2),
    "alphabets": (0.0, 0.2),
    "brahmic": (0.0, 0.2),
    "ideographs": (0.0, 0.2),
    "pictures": (0.0, 0.5),
    "tool_tokens": (1.0, 0.5),
    "tools": (4.0, 10.0),
    "has_tools": (20.0, 60.0),
    "call_tokens": (1.0, 0.3),
    "calls": (8.0, 10.0),
    "messages": (4.0, 2.0),
    "chat": (3.0, 8.0),
    "no_system": (5.0, 10.0),
    "raw": (0.3, 0.5),
    "generate": (10.0, 15.0),
}
"""Tokens that one unit of each feature costs, and the standard deviation of that belief before any answer was seen.
Vocabularies of 32 k to 256 k tokens find 0.85 to 1.4 times our tokens; chat templates take 3 to 8 a message, some add a
system message of their own, and what they do with tools ranges from nothing to a page of rules. `chat` and `no_system`
are so unsure because a tiny prompt's surprise is the template's, and must not be read as longer words."""

_MEAN = [PRIOR[name][0] for name in FEATURES]
_VARIANCE = [PRIOR[name][1] ** 2 for name in FEATURES]
_TOKENS, _FOREIGN = FEATURES.index("tokens"), FEATURES.index("foreign")

NOISE = (1.0, 0.01)
"""How exactly one answer is believed: a token, and 1 % of the prompt. Small, so that thirty answers teach enough."""

RESIDUE = (2.0, 0.025)
"""What no weights can tell, for the band: two tokens, and 2.5 % of the prompt."""

WALK = 1e-5
"""Share of the prior's variance that comes back with each answer: what was believed for long can still be unlearnt."""

OUTLIER = 4.0
"""An error beyond this many standard deviations moves the weights no further than one at it (Huber)."""

OPENED = 100.0
"""Times the prior's variance that comes back at most where two answers in a row are such errors to the same side: the
tokenizer is of another family than was believed (bytes, characters), or another one by now. To learn it in steps of
outliers takes hundreds of answers."""

RECENT = 256
"""Errors that the band is drawn from."""

LEARNT = 10
"""Answers after which a count is called calibrated and its band is drawn from errors."""

COVERAGE = 0.96
"""Quantile of recent errors that the band takes: 95 % are promised, and the quantile is itself an estimate."""

UNTAUGHT, LEARNING, FEW = 1.75, 4.0, 3.0
"""Half width of the band in standard deviations of the filter: before the first answer, when the prior alone speaks;
and at least until a count is called calibrated, when the filter believes more of other kinds of prompts than it can
know; and until there are errors enough."""

ENOUGH = 24
"""Errors of which that quantile is one: the largest of ten is passed by every eleventh."""

SEASONED, SAMPLED = 256, 4
"""Answers after which only every fourth of those that lie in their band moves the weights: an update takes 80 us, and
tells little that was not known. A surprise always does."""

LARGEST = 1e12
"""No number of a calibration comes near it."""

DRIFT = 0.05
"""Weight of the newest answer in the smoothed drift: about the last forty count."""


class Estimate(NamedTuple):
    """What is believed of a prompt before its answer, in tokens."""

    n: float
    half: float
    """Half width of the band that holds the truth 95 times of 100."""
    deviation: float
    """How sure the filter is: its own standard deviation."""
    least: float = 0.0
    """No vocabulary finds fewer: the band does not reach below."""

    @property
    def band(self) -> tuple[int, int]:
        """From and to, in whole tokens; `n` is inside."""
        return floor(max(self.n - self.half, self.least)), ceil(self.n + self.half)


class Calibration:
    """One model's weights and errors.

    State: weights, their covariance, recent errors in standard deviations in order of time and of size, answers learnt
    from, smoothed drift, the error that half the band is wide, and to which side the last answer was an outlier.
    """

    __slots__ = ("_covariance", "_errors", "_ranked", "_surprise", "_weights", "_width", "answers", "drift")

    def __init__(self, trust: float = 1.0) -> None:
        """`trust` scales the prior's deviations: below 1 where our vocabulary is known to be the model's own."""
        self._weights = list(_MEAN)
        self._covariance = [[0.0] * len(_MEAN) for _ in _MEAN]
        for i, variance in enumerate(_VARIANCE):
            self._covariance[i][i] = variance * trust**2
        self._errors: deque[float] = deque()
        self._ranked: list[float] = []
        self._width = UNTAUGHT
        self._surprise = 0
        self.answers = 0
        self.drift = 0.0
        """Smoothed (truth - count) / truth of the recent answers; positive: we count too few."""

    @property
    def learnt(self) -> bool:
        """Whether enough answers were seen to call a count calibrated."""
        return self.answers >= LEARNT

    def estimate(self, sample: Sample) -> Estimate:
        """What this prompt will cost, and how sure that is."""
        numbers = list(map(float, sample))  # a third faster than whole numbers, times floats
        n = sum(map(mul, self._weights, numbers))
        doubt = 0.0
        for i, (number, row) in enumerate(zip(numbers, self._covariance, strict=True)):
            if number:  # the covariance is symmetric: what stands on both sides of its diagonal counts twice
                doubt += number * (2.0 * sum(map(mul, row, numbers[:i])) + row[i] * number)
        deviation = sqrt(doubt + _square(RESIDUE, n))
        least = fewest(sample[_TOKENS], sample[_FOREIGN])
        if self.learnt and n < least:
            least = 0.0  # answers say otherwise: a template may leave text out
        return Estimate(max(n, least), self._width * deviation, deviation, least)

    def learn(self, sample: Sample, truth: int) -> None:
        """Take in one answer: the engine found `truth` tokens in the prompt of this sample."""
        numbers = list(map(float, sample))
        pull = [sum(map(mul, row, numbers)) for row in self._covariance]
        n, doubt = sum(map(mul, self._weights, numbers)), sum(map(mul, pull, numbers))
        error, residue = truth - n, _square(RESIDUE, n)
        size = abs(error) / sqrt(doubt + residue)
        if self._surprised_again(error, size):
            doubt += self._open(numbers, pull, (error / OUTLIER) ** 2 - doubt - residue)
        reach = OUTLIER * sqrt(doubt + residue)
        self._update(pull, max(-reach, min(error, reach)), doubt + _square(NOISE, n))
        self._heard(size, error, truth)

    def confirms(self, n: int, low: int, high: int, truth: int) -> bool:
        """Take in an answer by the count and the band that it was given, where it needs to teach no more than that."""
        if self.answers < SEASONED or not low <= truth <= high or self.answers % SAMPLED == 0:
            return False
        self._heard(abs(truth - n) / max(high - n, 1) * self._width, truth - n, truth)
        return True

    def _surprised_again(self, error: float, size: float) -> bool:
        """Whether this answer is an outlier as the last one was, and to the same side: then it was none."""
        last, self._surprise = self._surprise, 0 if size <= OUTLIER else 1 if error > 0 else -1
        return self._surprise != 0 and self._surprise == last

    def _open(self, numbers: list[float], pull: list[float], missing: float) -> float:
        """Gives back of the prior's doubt as much as makes up for what is `missing` to this sample, and returns it."""
        prior = [variance * number for variance, number in zip(_VARIANCE, numbers, strict=True)]
        whole: float = sum(map(mul, prior, numbers))
        share = min(OPENED, missing / whole) if whole else 0.0
        for i, row in enumerate(self._covariance):
            row[i] += share * _VARIANCE[i]
            pull[i] += share * prior[i]
        return share * whole

    def _heard(self, size: float, error: float, truth: int) -> None:
        self._keep(size)
        self.answers += 1
        self.drift += DRIFT * (error / max(truth, 1) - self.drift)
        self._width = self._drawn_width()

    def _keep(self, size: float) -> None:
        """One more error; the oldest makes room."""
        self._errors.append(size)
        insort(self._ranked, size)
        if len(self._errors) > RECENT:
            del self._ranked[bisect_left(self._ranked, self._errors.popleft())]

    def _drawn_width(self) -> float:
        """Half the band's width that the recent errors ask for."""
        if not self._errors:
            return UNTAUGHT
        width = _quantile(self._ranked, COVERAGE)
        if self.answers >= ENOUGH:
            return width
        return max(width, FEW if self.learnt else LEARNING)

    def _update(self, pull: list[float], error: float, variance: float) -> None:
        """The filter's step: shift the weights by the gain, shrink the covariance, and let it walk."""
        for i, row in enumerate(self._covariance):
            gain = pull[i] / variance
            self._weights[i] += gain * error
            self._covariance[i] = row = [entry - gain * other for entry, other in zip(row, pull, strict=True)]
            row[i] += WALK * _VARIANCE[i]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON, to be kept over a restart. What is learnt later does not change it."""
        return {
            "features": list(FEATURES),
            "weights": list(self._weights),
            "covariance": list(self._covariance),
            "errors": list(self._errors),
            "answers": self.answers,
            "drift": self.drift,
        }

    @staticmethod
    def readable(kept: dict[str, Any]) -> bool:
        """Whether this was kept by a version with the same features; else it must be learnt anew."""
        return kept.get("features") == list(FEATURES)

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> "Calibration":
        """What `to_dict` gave; `readable` says whether it can be. Raises ValueError for what it never gave."""
        self = cls()
        self._weights = _numbers(kept.get("weights"), len(FEATURES))
        self._covariance = [_numbers(row, len(FEATURES)) for row in _items(kept.get("covariance"), len(FEATURES))]
        for error in _numbers(kept.get("errors")):
            self._keep(error)
        answers, (self.drift,) = kept.get("answers"), _numbers([kept.get("drift")])
        if type(answers) is not int or answers < 0 or any(row[i] < 0 for i, row in enumerate(self._covariance)):
            raise ValueError("no calibration")
        self.answers = answers
        self._width = self._drawn_width()
        return self


def _items(kept: object, size: int | None = None) -> list[Any]:
    if not isinstance(kept, list) or len(kept) != (len(kept) if size is None else size):
        raise ValueError("no list of this size")
    return kept


def _numbers(kept: object, size: int | None = None) -> list[float]:
    numbers = _items(kept, size)
    if not all(type(each) in (int, float) and -LARGEST < each < LARGEST for each in numbers):
        raise ValueError("no list of numbers")
    return [float(each) for each in numbers]


def _square(deviation: tuple[float, float], n: float) -> float:
    """The variance, from a deviation in tokens and one as a share of the prompt."""
    tokens, share = deviation
    return (tokens + share * n) ** 2


def _quantile(ranked: Sequence[float], share: float) -> float:
    """The error that `share` of past and next errors stay within (the next one counts as one more)."""
    return ranked[min(len(ranked), ceil((len(ranked) + 1) * share)) - 1]
