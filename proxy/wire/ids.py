"""vLLM's `return_token_ids`: the engine's own tokens of prompt and answer, which the prefix audit works with.

Asked for (vLLM 0.10.2 and later), the ids stand in `prompt_token_ids`, at the top of a chat and in the choice of a
completion, and in each choice's `token_ids`. Not asked for, these members are null; streams of vLLM's server in Rust
leave out what is null. Streams then have events of their own too, for tokens of which nothing is said yet (a tool
parser waits for more): they hold ids alone, and go.
"""

from array import array
from collections.abc import Iterator

import msgspec

from proxy.records import RequestFacts
from proxy.wire.blocks import parse_block
from proxy.wire.cutting import cut, read

NAMES = ("token_ids", "prompt_token_ids")

PIECE = 32 * 1024
"""Bytes of ids that are read at a time: some 5,000, which takes 0.15 ms."""


def asks(kind: str, facts: RequestFacts) -> bool:
    """The engine is asked for the ids of this request: those of one prompt of text or ids, for an image's tokens do not
    tell which image it is."""
    prompt = facts.prompt
    if kind != "vllm" or prompt is None or facts.prompts != 1 or facts.route != "inference":
        return False
    if facts.dialect != "openai" or facts.kind not in ("chat", "completion"):
        return False
    return all(part.kind == "text" for message in prompt.messages for part in message.parts)


UNLESS = ("echo", "logprobs")
"""Members whose presence forbids the asking: a completion that is echoed comes without its prompt's text then, and
whether events without text have log-probabilities depends on the version."""


class IdsEdit:
    """Puts null in place of ids, as if nobody had asked."""

    # State: whether this stream leaves out what is null; None: no event has told.
    __slots__ = ("_leaves_out",)
    marks = (b'token_ids"',)

    def __init__(self) -> None:
        self._leaves_out: bool | None = None

    def event(self, block: bytes) -> bytes | None:
        """The event without ids; None where it holds nothing else."""
        before, text, after = _line(block)
        body = read(text)
        if body is None or not body.choices:
            return block
        if self._leaves_out is None:
            self._leaves_out = not bytes(body.choices[0].finish_reason)
        if len(body.choices) == 1 and not body.choices[0].adds:
            return None
        return b"".join((before, cut(text, body, NAMES, whole=self._leaves_out), after))

    def body(self, text: bytes) -> bytes:
        """The answer without ids."""
        body = read(text)
        return text if body is None else cut(text, body, NAMES, whole=False)


def _line(block: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before the event's JSON, the JSON, where it is one line, and what stands behind."""
    if block.startswith(b"data: {") and block.find(b"\n") == len(block) - 2:
        return block[:6], block[6:-2], block[-2:]
    frame = parse_block(block)
    return block.partition(frame.data) if frame is not None and frame.data else (block, b"", b"")


def spelt(raw: bytes) -> Iterator["array[int]"]:
    """Token ids that stand there as JSON, a piece at a time: the caller may do other things between. Raises ValueError
    where they are no list of whole numbers; what no engine has is cut to 32 bits."""
    text = raw.strip()
    if text[:1] != b"[" or text[-1:] != b"]":
        raise ValueError("no list")
    at, end = 1, len(text) - 1
    while at < end:
        comma = text.find(b",", at + PIECE, end)
        stop = comma if comma >= 0 else end
        yield _packed(msgspec.json.decode(b"[%b]" % text[at:stop], type=list[int]))
        at = stop + 1


def _packed(ids: list[int]) -> "array[int]":
    try:
        return array("I", ids)
    except OverflowError:
        return array("I", [id & 0xFFFFFFFF for id in ids])
