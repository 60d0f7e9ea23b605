"""A job on its way through a machine: the one mutable object per job."""

from dataclasses import dataclass

from proxy.sim.jobs import Job, Token, Truth


@dataclass(slots=True, eq=False)
class Progress:
    """State: how many tokens are computed and emitted, and the moments of its truth so far."""

    job: Job
    arrived_ns: int
    queued_ns: int
    scheduled_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    cached: int = 0
    preemptions: int = 0
    lost_ns: int = 0
    computed: int = 0
    """Tokens in KV memory."""
    emitted: int = 0

    @property
    def length(self) -> int:
        """Tokens known so far: the prompt and what was emitted."""
        return len(self.job.prompt) + self.emitted

    @property
    def lacks(self) -> int:
        """Tokens to compute before the next one can be emitted."""
        return self.length - self.computed

    @property
    def decoding(self) -> bool:
        """It has a token, and lacks nothing but that one: not so while it is computed again."""
        return self.emitted > 0 and self.lacks == 1

    @property
    def done(self) -> bool:
        """The whole answer is out."""
        return self.emitted == len(self.job.answer)

    def tokens(self, start: int, count: int) -> tuple[int, ...]:
        """`count` token ids of prompt and answer from `start`."""
        prompt, end = self.job.prompt, start + count
        if end <= len(prompt):
            return prompt[start:end]
        return prompt[start:] + self.job.answer[max(0, start - len(prompt)) : end - len(prompt)]

    def emit(self, end: int) -> Token:
        """The next token leaves at `end`."""
        if self.first_token_ns is None:
            self.first_token_ns = end
        self.last_token_ns = end
        self.emitted += 1
        return Token(self.job.id, self.emitted - 1, self.done)

    def truth(self, aborted: bool = False) -> Truth:
        """What has happened to it."""
        return Truth(
            id=self.job.id,
            arrived_ns=self.arrived_ns,
            queued_ns=self.queued_ns,
            scheduled_ns=self.scheduled_ns,
            first_token_ns=self.first_token_ns,
            last_token_ns=self.last_token_ns,
            prompt_tokens=len(self.job.prompt),
            cached_tokens=self.cached,
            output_tokens=self.emitted,
            preemptions=self.preemptions,
            interference_ns=self.lost_ns,
            finish="abort" if aborted else self.job.finish,
            aborted=aborted,
        )
