"""What is left of a limit, in OpenAI's headers.

Names and duration format are OpenAI's (platform documentation, "Rate limits in headers"): whole numbers, and the time
until the limit is whole again as Go writes a duration.
"""

from typing import NamedTuple


class Quota(NamedTuple):
    """One limit, as it stands."""

    limit: int
    remaining: int
    reset_ns: int
    """Until all of it is there again."""

    def share(self) -> float:
        """What is left, as a share."""
        return self.remaining / self.limit


def ratelimit_headers(requests: Quota | None, tokens: Quota | None) -> list[tuple[bytes, bytes]]:
    """`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`; nothing for what is not limited."""
    named = ((b"requests", requests), (b"tokens", tokens))
    return [header for name, quota in named if quota is not None for header in _headers(name, quota)]


def _headers(name: bytes, quota: Quota) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-ratelimit-limit-" + name, b"%d" % quota.limit),
        (b"x-ratelimit-remaining-" + name, b"%d" % quota.remaining),
        (b"x-ratelimit-reset-" + name, duration(quota.reset_ns).encode()),
    ]


def duration(ns: int) -> str:
    """A duration as Go writes it, rounded up to milliseconds: `0s`, `12ms`, `8.64s`, `6m0s`, `1h0m0.5s`."""
    ms = -(-ns // 1_000_000)
    if 0 < ms < 1000:
        return f"{ms}ms"
    minutes, ms = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds
