"""Leave to be at the engine, and what a request has used when it is over."""

from collections.abc import Callable

from proxy.admission.hold import Now, Spent
from proxy.admission.sizes import Cap
from proxy.records import AdmissionVerdict, Usage

End = Callable[[str, Usage | None, int], None]

UNSERVED = ("withdrawn", "rejected")
"""How a request ends on which the engine did not work: it says nothing about how long others take."""

ADMITTED = AdmissionVerdict()
"""No rule has anything to say."""

LEFT_THE_LINE = AdmissionVerdict("queued", "disconnected", mode="enforce")
"""The verdict of a request that ended in line at the door."""


class Permit:
    """Leave to be at the engine.

    State: whether it has ended.
    """

    __slots__ = ("_end", "output_cap", "verdict")

    def __init__(self, verdict: AdmissionVerdict, output_cap: Cap | None, end: End) -> None:
        self.verdict = verdict
        self.output_cap = output_cap
        """Output tokens to write into the request as its limit, and for which rule; None: leave it as it is."""
        self._end: End | None = end

    def first_token(self) -> None:
        """The prompt has been read. Limits hold until the end; lanes let go here."""

    def ended(self, how: str, usage: Usage | None, written: int = 0) -> None:
        """`success`, `ignore` or `dropped` settle with the usage that the engine stated, and where it stated none with
        the output tokens that were seen (`written`). `rejected` gives all tokens back, `withdrawn` everything. The
        first call counts."""
        end, self._end = self._end, None
        if end is not None:
            end(how, usage, written)


def free() -> Permit:
    """Leave that nothing was taken for."""
    return Permit(ADMITTED, None, lambda how, usage, written: None)


def spent(now: Now, n: int, how: str, usage: Usage | None, written: int) -> Spent:
    """What the request used: what the engine says; of what it does not say the prompt as it was charged, and the output
    that was seen, for so much was written at least. So too where an answer broke off: what the engine said of it may be
    older than what it wrote. Nothing, if the request never went there; no token, if it was rejected."""
    if how == "withdrawn":
        return Spent(now, 0, 0, 0)
    said = usage or Usage()
    charged = n if how != "rejected" else 0
    prompt = said.prompt_tokens if said.prompt_tokens is not None else charged
    output = said.output_tokens if said.output_tokens is not None else written
    return Spent(now, 1, prompt, prompt + (output if how == "success" else max(output, written)))
