"""The audits of all engines, over texts that all share, and a sample of prompts for the office.

A prompt's new long texts are tokenised off the loop first. The key of all hashes is kept in a file where one is named,
so that families keep their names over a restart.
"""

import asyncio
import secrets
from array import array
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from proxy.config import Prefixes
from proxy.engine import Engine
from proxy.events import Said
from proxy.flaws import ConfigError, Flaw
from proxy.plain import fault
from proxy.prefixes.audit import Audit
from proxy.prefixes.caches import Blocks, Cache, cache_of
from proxy.prefixes.canon import Encode
from proxy.prefixes.pace import Pace
from proxy.prefixes.spelt import Spelt
from proxy.prefixes.texts import Texts
from proxy.records import Prompt
from proxy.wire.ids import spelt

LONG = 4_096
"""New characters of a prompt that are tokenised off the loop: below, the hand-over costs more than the work."""

LONGEST = 2_000_000
"""Characters of a prompt that is audited. The match is bounded at 131k tokens, which is a quarter of that in English
and all of it in text of short tokens; what is longer is no prompt that a window holds."""

PIECES = 2_048
"""Messages and parts of a prompt that is audited: each takes some 10 us of the loop. An agent that has filled a
window of 200,000 tokens has sent some 400 messages."""

ID_CHARS = 8
"""Characters that a token id counts for: what it takes in memory and in a message."""

SAMPLE_LONGEST = 200_000
"""Characters of a prompt and its answer that go there."""


class Auditing:
    """The audits of all engines. Raises ConfigError for a key file that cannot be had."""

    # State: the caches by engine (they know their replicas), and the pace of prompts that go to the office.
    def __init__(self, settings: Prefixes, encode: Encode, executor: Executor) -> None:
        self.secret = key_of(settings.key_file)
        self._settings = settings
        self._encode = encode
        self._executor = executor
        self._texts = Texts(encode, self.secret)
        self._caches: dict[str, Cache] = {}
        self._pace = Pace()

    def attach(self, engine: Engine) -> None:
        """A fresh audit for an engine that is new, or another one than before."""
        if not self._settings.audit:
            return
        block, tokens = engine.cache_shape
        slots = engine.upstream.slots or engine.fingerprint.slots
        kept = Spelt if self._settings.exact_ids and engine.kind == "vllm" else Blocks
        cache = cache_of(engine.kind, self._texts, block, tokens, slots, kept)
        self._caches[engine.name] = cache
        engine.audit = Audit(self._texts, cache, self._caches.values(), engine.known)  # as they come and go

    async def acquaint(self, engine: Engine, prompt: Prompt, spelling: bytes = b"") -> Sequence[int] | None:
        """Tokenise what is new in a long prompt, off the loop, and read its spelling: its token ids, as the engine says
        them in JSON. The ids; empty where they are not known; None where the prompt cannot be audited at all."""
        if prompt.over(PIECES) or (length := size(prompt)) > LONGEST:
            return None
        if length >= LONG and isinstance(engine.audit, Audit):
            strange = engine.audit.strange(prompt)
            if sum(map(len, strange)) >= LONG:
                await self._learn(engine.audit, strange)
        return await _ids(spelling) if spelling else ()

    async def overhear(self, engine: Engine, said: Said) -> Sequence[int]:
        """Tokenise a long answer, off the loop, before it is taken up. The prompt's ids, where it says them."""
        if isinstance(engine.audit, Audit) and len(said.text) >= LONG:
            await self._learn(engine.audit, [said.text])
        return await _ids(said.prompt)

    async def _learn(self, audit: Audit, texts: list[str]) -> None:
        loop = asyncio.get_running_loop()
        tokens = await loop.run_in_executor(self._executor, lambda: list(map(self._encode, texts)))
        for text, ids in zip(texts, tokens, strict=True):
            audit.learn(text, ids)

    def samples(self, prompt: Prompt | None, answer: str, at_s: float) -> float:
        """For how many prompts this one and its answer stand in the office's search; 0: it does not go there. `at_s`:
        when it came."""
        if prompt is None or not self._settings.audit or not (prompt.messages or prompt.texts):
            return 0.0
        stands_for = self._pace.take(at_s)
        if not stands_for or prompt.over(PIECES) or size(prompt) + len(answer) > SAMPLE_LONGEST:
            return 0.0
        return stands_for


async def _ids(spelling: bytes) -> Sequence[int]:
    """Token ids that stand there in JSON, read with the loop free in between; none where they are no such thing."""
    ids = array("I")
    try:
        for piece in spelt(spelling):
            if ids:
                await asyncio.sleep(0)
            ids.extend(piece)
    except ValueError:
        return ()
    return ids


def size(prompt: Prompt) -> int:
    """Characters in a prompt: of all that a client can make long, texts, images, calls, roles and token ids."""
    total = len(prompt.salt) + sum(map(len, prompt.texts)) + sum(map(len, prompt.tools))
    for message in prompt.messages:
        total += len(message.role)
        for part in message.parts:
            total += len(part.text)
        for call in message.calls:
            total += len(call.name) + len(call.arguments)
    return total + ID_CHARS * sum(map(len, prompt.ids))


def key_of(file: str) -> bytes:
    """The key in a file, made where there is none; without a file a key for this process alone. Raises ConfigError."""
    if not file:
        return secrets.token_bytes(32)
    path = Path(file)
    try:
        key = b""
        if path.exists():
            with path.open("rb") as kept:
                key = kept.read(64)
        if not key:  # there is none, or a crash came between making the file and writing it
            key = secrets.token_bytes(32)
            path.touch(mode=0o600)
            path.write_bytes(key)
    except OSError as error:
        raise ConfigError(Flaw("prefixes.key_file", f"{path}: {fault(error)}")) from None
    return key
