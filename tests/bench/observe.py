"""What it costs to observe one streamed event: framing and reading, beside decoding the same JSON alone, and in rows,
where a dialect has them (wire.pieces).

Run: python -m tests.bench.observe
The ratio is what to look at: it depends little on the machine. Times are the best of several rounds.
"""

import time
from collections.abc import Callable

import msgspec

from proxy.records import RequestFacts
from proxy.wire.dialects import reader_for
from proxy.wire.framing import framing_for
from proxy.wire.pieces import texts_of

ROUNDS, EVENTS = 15, 4_000
ROW = 16
LIMIT = 1 << 20

CHAT = (
    b'{"id":"chatcmpl-b52576270a303b01","object":"chat.completion.chunk","created":1795962579,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" capital"},"logprobs":null,"finish_reason":null,"token_ids":null}]}'
)
LINE = (
    b'{"model":"m","created_at":"2026-11-29T16:19:21.315174565Z",'
    b'"message":{"role":"assistant","content":" capital"},"done":false}'
)
NATIVE = (
    b'{"index":0,"content":" city","tokens":[2240],"stop":false,"id_slot":-1,"tokens_predicted":3,"tokens_evaluated":4}'
)

CASES = (
    ("openai chat chunk", RequestFacts("openai", "chat", "inference"), "text/event-stream", CHAT),
    ("ollama chat line", RequestFacts("ollama", "chat", "inference"), "application/x-ndjson", LINE),
    ("llama.cpp event", RequestFacts("llamacpp", "completion", "inference"), "text/event-stream", NATIVE),
)


def best_ns(work: Callable[[], None]) -> float:
    """Nanoseconds per event of the fastest round."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return min(times) / EVENTS


def measure(facts: RequestFacts, content_type: str, chunk: bytes) -> tuple[float, float, float]:
    """Decoding alone, framing alone, framing and reading."""
    wire = b"data: " + chunk + b"\n\n" if "event-stream" in content_type else chunk + b"\n"

    def decode() -> None:
        for _ in range(EVENTS):
            msgspec.json.decode(chunk)

    def frame() -> None:
        feed = framing_for(content_type, LIMIT).feed
        for _ in range(EVENTS):
            feed(wire)

    def observe() -> None:
        feed, read = framing_for(content_type, LIMIT).feed, reader_for(facts, content_type, 200).read
        for _ in range(EVENTS):
            for each in feed(wire):
                read(each)

    return best_ns(decode), best_ns(frame), best_ns(observe)


def in_rows(facts: RequestFacts, content_type: str, chunk: bytes) -> float | None:
    """Reading many at a time; None: the dialect is read one by one."""
    wire = b"data: " + chunk + b"\n\n" if "event-stream" in content_type else chunk + b"\n"
    framing, reader = framing_for(content_type, LIMIT), reader_for(facts, content_type, 200)
    texts = texts_of(framing, reader)
    if texts is None:
        return None
    for each in framing.feed(wire):
        reader.read(each)
    row = [wire] * ROW
    assert len(texts(row)) == ROW

    def read() -> None:
        for _ in range(EVENTS // ROW):
            texts(row)

    return best_ns(read)


def main() -> None:
    """Print one line a dialect."""
    for name, facts, content_type, chunk in CASES:
        decode, frame, observe = measure(facts, content_type, chunk)
        print(
            f"{name:20} decode {decode:6.0f} ns   framing {frame:6.0f} ns   framing and reader {observe:6.0f} ns",
            end="",
        )
        rows = in_rows(facts, content_type, chunk)
        print(f"   {observe / decode:.2f} x decode", end="")
        print(f"   in rows {rows:6.0f} ns, {rows / observe:.2f} x" if rows is not None else "")


if __name__ == "__main__":
    main()
