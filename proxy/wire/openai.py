"""OpenAI's chat, completions and embeddings, as vLLM, Ollama, llama.cpp and SGLang speak them.

Usage may ride on any chunk, also one that has a choice. Reasoning comes as `reasoning`, `reasoning_content` or
`thinking`. vLLM's `metrics`, llama.cpp's `timings` and SGLang's `meta_info` are read where they stand.
"""

from typing import Any

import msgspec

from proxy.errors import ProxyError
from proxy.events import MOST_CHOICES, NOTHING, Event, Frame
from proxy.records import EngineReport, Prompt, RequestFacts, Usage
from proxy.wire.counting import RunningCount
from proxy.wire.decoding import DONE, MOST, Shape
from proxy.wire.fields import choice_count, first_given, items, mapping, output_limit, text
from proxy.wire.prompts import EMBEDDED, chat_prompt, pair_prompt, raw_prompt
from proxy.wire.reports import (
    complaint,
    completed,
    llamacpp_report,
    llamacpp_usage,
    openai_usage,
    predicted,
    sglang_report,
    sglang_usage,
    vllm_report,
)


class Function(msgspec.Struct, gc=False):
    """A call's name and arguments; Ollama's native arguments are an object."""

    name: str | None = None
    arguments: Any = None


class ToolCall(msgspec.Struct, gc=False):
    """One tool call, or a piece of one."""

    function: Function | None = None


class Output(msgspec.Struct, gc=False):
    """A delta or a message."""

    role: str | None = None
    content: str | list[Any] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None


class Choice(msgspec.Struct, gc=False):
    """One choice of a chunk or of a body."""

    index: int | None = 0
    delta: Output | None = None
    message: Output | None = None
    text: str | None = None
    finish_reason: str | None = None
    token_ids: list[Any] | None = None
    logprobs: Any = None
    meta_info: Any = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk of a stream, or a whole body. `message` is that of SGLang's flat error."""

    choices: list[Choice] | None = None
    usage: Any = None
    metrics: Any = None
    timings: Any = None
    error: Any = None
    message: Any = None


_CHUNK = Shape(Chunk)
_BRACE = ord("{")
_GENERATES = frozenset({"chat", "completion"})


def called(call: Function | None) -> bool:
    """A call has a name or arguments: the engine has written something."""
    return call is not None and bool(call.name or call.arguments)


def calls_any(calls: list[ToolCall] | None) -> bool:
    """One of these calls has a name or arguments."""
    return calls is not None and any(called(call.function) for call in calls)


def spoken(output: Output) -> str:
    """Answer text of a delta or message."""
    content = output.content
    if isinstance(content, list):
        return "".join(text(mapping(each).get("text")) for each in content[:MOST])
    return content or ""


def said(choice: Choice) -> tuple[str, bool, bool]:
    """Answer text of a choice, whether it answers (by text or a call), and whether it reasons."""
    output = choice.delta or choice.message
    answer = choice.text or ""
    if output is None:
        return answer, bool(answer), False
    answer = answer or spoken(output)
    calls = called(output.function_call) or calls_any(output.tool_calls)
    thought = output.reasoning or output.reasoning_content or output.thinking
    return answer, bool(answer) or calls, bool(thought)


def listed(choice: Choice) -> int:
    """Tokens of this piece, where the client asked for their ids or log-probabilities; else 0."""
    if choice.token_ids is not None:
        return len(choice.token_ids)
    if choice.logprobs is None:
        return 0
    logprobs = mapping(choice.logprobs)
    return len(items(logprobs.get("content")) or items(logprobs.get("tokens")))


def usual(chunk: Chunk) -> str:
    """The text of a chunk that says no more than a piece of text of choice 0; empty for all others."""
    choices = chunk.choices
    if not choices or len(choices) != 1 or chunk.usage is not None or chunk.timings is not None:
        return ""
    choice = choices[0]
    delta = choice.delta
    if delta is None or choice.index or choice.finish_reason or choice.meta_info is not None:
        return ""
    if choice.token_ids is not None or choice.logprobs is not None or chunk.metrics is not None or chunk.error:
        return ""
    return delta.content if isinstance(delta.content, str) else ""


OUTPUT_LIMITS = ("max_completion_tokens", "max_tokens", "n_predict")
"""All engines heed `max_tokens`; the last is llama.cpp's own, which it heeds on all of its routes."""


def read_request(found: RequestFacts, asked: dict[str, Any]) -> RequestFacts:
    """What a body of OpenAI asks for."""
    prompt, prompts = _prompt(found.kind, asked)
    return found._replace(
        n=choice_count(asked.get("n")),
        prompts=prompts,
        max_output=output_limit(*map(asked.get, OUTPUT_LIMITS)),
        asks_usage=mapping(asked.get("stream_options")).get("include_usage") is True,
        prompt=None if prompt == Prompt() and found.kind not in _GENERATES else prompt,
        output_names=tuple([name for name in OUTPUT_LIMITS if asked.get(name) is not None]),
    )


def _prompt(kind: str, asked: dict[str, Any]) -> tuple[Prompt, int]:
    if kind in ("rerank", "score"):
        return pair_prompt(asked)
    if kind == "chat" or (kind != "completion" and asked.get("messages")):
        return chat_prompt(asked), 1
    if kind == "completion":
        prompt = first_given(asked, "prompt")
        # What is to stand behind the answer is read with it: engines that cannot do so refuse it.
        whole = prompt + text(asked.get("suffix")) if isinstance(prompt, str) else prompt
        raw, prompts = raw_prompt(whole, asked.get("cache_salt"))
        return raw._replace(unseen=int(bool(asked.get("prompt_embeds")))), prompts
    return raw_prompt(first_given(asked, *EMBEDDED), asked.get("cache_salt"))


def render_error(error: ProxyError, status: int) -> dict[str, Any]:
    """OpenAI's object; what every client of `/v1` reads."""
    return {"error": {"message": str(error), "type": error.type, "param": error.param, "code": error.code}}


class OpenAi:
    """Reads the frames of one answer."""

    # State: the running count, choices seen and choices that have finished, whether [DONE] has come, and whether a
    # piece of text for choice 0 changes none of these (`plain`).
    __slots__ = ("_asked", "_done", "_finished", "_generates", "_running", "_seen", "_streamed", "plain")

    def __init__(self, facts: RequestFacts, streamed: bool) -> None:
        self._streamed = streamed
        self._generates = facts.kind in _GENERATES
        self._asked = facts.n * facts.prompts
        self._running = RunningCount(streamed)
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._done = False
        self.plain = False

    def read(self, frame: Frame) -> Event:
        """What one chunk, or the whole body, says. Raises `Unreadable`."""
        data = frame.data
        if not data or data[0] != _BRACE:
            return self._other(data)
        chunk = _CHUNK.read(data)
        if self.plain and (piece := usual(chunk)):
            # Nine events of ten end here. tuple.__new__ takes a third of the time of the named constructor.
            return tuple.__new__(Event, ((0,), False, piece, (), None, None, None, False, False, None, ()))
        if chunk.error or (chunk.message and not chunk.choices) or frame.name == b"error":
            return Event(error=complaint(chunk.error))
        return self._event(chunk)

    def complete(self) -> bool:
        """[DONE], or a finish reason for every choice; an answer that is no stream of tokens needs neither."""
        finished = len(self._finished) >= self._asked and self._seen <= self._finished
        return self._done or finished or not (self._streamed and self._generates)

    def _other(self, data: bytes) -> Event:
        """What does not begin as an object: the end, an empty event, llama.cpp's `null`, white space first."""
        bare = data.strip()
        if bare.startswith(DONE):
            self._done = True
            return Event(done=True)
        if bare.startswith(b"{"):
            return self.read(Frame(bare))
        if bare:
            _CHUNK.read(bare)
        return NOTHING

    def _event(self, chunk: Chunk) -> Event:
        tokens: tuple[int, ...] = ()
        finish: tuple[tuple[int, str], ...] = ()
        answer, answered, role = "", False, False
        if chunk.choices and len(chunk.choices) > MOST:
            del chunk.choices[MOST:]
        for choice in chunk.choices or ():
            index = (choice.index or 0) % MOST_CHOICES
            self._seen.add(index)
            piece, answers, reasons = said(choice)
            if answers or reasons:
                tokens += (index,)
                answer += piece
                answered = answered or answers
            elif choice.delta is not None and choice.delta.role:
                role = True
            if choice.finish_reason:
                self._finished.add(index)
                finish += ((index, choice.finish_reason),)
        usage, report = self._claims(chunk)
        if not self._streamed:
            return Event((), False, answer, finish, usage, report, ids=self._spelt(chunk))
        reasoning = bool(tokens) and not answered
        tokens, counted = self._counted(chunk, usage, tokens)
        self.plain = 0 in self._seen and not self._running.live
        role = role and not tokens
        return Event(tokens, reasoning, answer, finish, usage, report, None, False, role, counted, self._spelt(chunk))

    def _spelt(self, chunk: Chunk) -> tuple[int, ...]:
        """Token ids of the output (vLLM's `return_token_ids`); of several choices none."""
        if self._asked != 1 or not chunk.choices:
            return ()
        return tuple([id for id in chunk.choices[0].token_ids or () if isinstance(id, int)])

    def _claims(self, chunk: Chunk) -> tuple[Usage | None, EngineReport | None]:
        usage = None if chunk.usage is None else openai_usage(chunk.usage)
        if chunk.timings is not None and predicted(chunk.timings):
            return completed(usage, llamacpp_usage(chunk.timings)), llamacpp_report(chunk.timings, self._asked == 1)
        if chunk.metrics is not None:
            return usage, vllm_report(chunk.metrics, self._asked == 1)
        info = chunk.choices[0].meta_info if chunk.choices else None
        if info is not None:
            return usage or sglang_usage(info), sglang_report(info, self._asked == 1)
        return usage, None

    def _counted(
        self, chunk: Chunk, usage: Usage | None, tokens: tuple[int, ...]
    ) -> tuple[tuple[int, ...], int | None]:
        """Token events by the running count where every event has one, and how many tokens this event holds."""
        choices, running = chunk.choices or [], self._running
        count = usage.output_tokens if usage else predicted(chunk.timings)
        if running.live and count is not None:
            rises = [self._rise(choice, count, tokens) for choice in choices]
            if running.live:
                return tuple(index for index, rise in rises if rise), sum(rise or 0 for _, rise in rises) or None
        running.live = False
        return tokens, sum(map(listed, choices)) or None if tokens else None

    def _rise(self, choice: Choice, count: int, tokens: tuple[int, ...]) -> tuple[int, int | None]:
        """Its number, and its new tokens."""
        index, delta = (choice.index or 0) % MOST_CHOICES, choice.delta
        wrote = index in tokens
        role = not wrote and delta is not None and bool(delta.role)
        return index, self._running.rise(index, count, wrote, role=role)
