"""Attribution: one finished exchange in, its total split into phases out. Pure.

    ladder.attribute      opens the bill, asks whether the report can be trusted, lets one rule split, adds the rates
      bill.Bill           the total and what is left of it; every part is clamped, so the parts always sum
      trust.contradicts   does our clock contradict the engine's figures
      ollama llamacpp vllm sglang   what each engine's report means, and what its timing on the wire means without one
      joint               what our clock alone can say: joint phases where only a sum is known
      seen                what a stream shows of the writing, and whether its first token event is where it began
      slots               when a residual was waiting for a slot, and when the engine's own work
      rates               tokens per second, time per output token
    findings              what is worth saying of one exchange beside its numbers

To add an engine: one file, its test, a line in `ladder.REPORTED` or `ladder.CLOCK`.
"""
