"""SGLang's `return_meta_info`: the engine's own times and cached tokens, in answers to chats that are no streams.

Asked for, each choice has `meta_info`; not asked for, it has no such member (SGLang 0.5.17 and later). In a stream the
asking is an error, so streams are not asked.
"""

from proxy.records import RequestFacts
from proxy.wire.cutting import cut, read


def asks(kind: str, facts: RequestFacts) -> bool:
    """The engine is asked for its block about this request."""
    if kind != "sglang" or facts.route != "inference" or facts.stream is True:
        return False
    if facts.prompt is None:  # a body that could not be read
        return False
    return facts.dialect == "openai" and facts.kind == "chat"


class MetaEdit:
    """Cuts the block out."""

    __slots__ = ()
    marks = (b'"meta_info"',)

    def event(self, block: bytes) -> bytes | None:
        """Streams have none."""
        return block

    def body(self, text: bytes) -> bytes:
        """The answer without the block."""
        body = read(text)
        return text if body is None else cut(text, body, ("meta_info",), whole=True)
