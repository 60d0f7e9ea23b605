"""`phasegate demo`: three acts on an embedded engine, and phasegate in front of it.

Nothing leaves this machine and nothing is downloaded. The engine follows vLLM's scheduling rules and knows the truth;
phasegate is the real one. Exit 1 if something that the demo says will be seen was not.
"""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.live import Live

from proxy.cli import GOAL_MISSED, UNREACHABLE, programme
from proxy.cli.acts import Prefix, Storm, Theatre, tempo
from proxy.cli.audience import Audience, Unanswered
from proxy.cli.finite import Finite
from proxy.cli.saying import tell
from proxy.cli.stage import StageError, stage
from proxy.clock import SystemClock
from proxy.sim.devices import DEVICES
from proxy.sim.plan import Plan

SEED = 7
LONGEST_S = 3600
"""An hour: nobody looks on for longer, and prompts would grow with it."""
LINE_S = 2.0
"""Seconds between two lines where there is no terminal."""

Result = TypeVar("Result")


class Show:
    """Plays and prints. State: the console, and how many calls were heard before the act that is on."""

    def __init__(self, theatre: Theatre, console: Console) -> None:
        self._theatre, self._console = theatre, console
        self._audience = theatre.audience
        self._before = 0

    async def play(self, act: Awaitable[Result]) -> Result:
        """Await an act and show it while it is on."""
        self._before = len(self._audience.heard)
        watching = asyncio.ensure_future(self._watch())
        try:
            return await act
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def acts(self) -> dict[str, Any]:
        """All three; what was measured."""
        theatre, say = self._theatre, partial(self._console.print, highlight=False, soft_wrap=True)
        tokens = f"{theatre.times.long_tokens:,}"
        self._head(f"Act 1. Eight people chat. Then four of them paste {tokens} tokens.")
        storm = await self.play(theatre.storm("act1", None))
        say(programme.storm_table(storm), "", programme.storm_words(storm), "", sep="\n")
        self._head("Act 2. The same, but one long prompt at a time.")
        held: Storm = await self.play(theatre.storm("act2", 1))
        say(programme.held_table(storm, held), "", programme.held_words(storm, held), "", sep="\n")
        self._head("Act 3. A long system prompt, with the time of day at its head and without.")
        alone = await self.play(theatre.alone("act3-alone"))
        stamped = await self.play(theatre.prefix("act3-stamped", stamped=True))
        clean = await self.play(theatre.prefix("act3-clean", stamped=False))
        say(programme.prefix_table(alone, stamped, clean), "", sep="\n")
        self._head("What was seen")
        for line in programme.seen(storm, alone, stamped, clean):
            say(f"  {line}")
        measured: dict[str, Storm | Prefix] = {
            "as_they_come": storm,
            "one_at_a_time": held,
            "alone": alone,
            "stamped": stamped,
            "clean": clean,
        }
        effects = programme.effects(storm, held, alone, stamped, clean)
        return {**{name: asdict(one) for name, one in measured.items()}, "effects": [asdict(one) for one in effects]}

    def _head(self, title: str) -> None:
        self._console.print(f"[bold]{title}[/bold]", highlight=False)

    async def _watch(self) -> None:
        if self._console.is_terminal:
            with Live(console=self._console, transient=True, refresh_per_second=5) as view:
                width = self._console.width
                await self._refresh(0.2, lambda heard, now_ns: view.update(programme.live(heard, now_ns, width)))
        await self._refresh(
            LINE_S, lambda *now: self._console.print(programme.plain(*now), highlight=False, soft_wrap=True)
        )

    async def _refresh(self, every_s: float, show: Callable[..., None]) -> None:
        while True:
            await asyncio.sleep(every_s)
            show(self._audience.heard[self._before :], self._audience.clock.now_ns())


async def perform(plan: Plan, seconds: float, console: Console) -> dict[str, Any]:
    """The whole show; raises StageError where a process fails and ExceptionGroup where a request does."""
    times = tempo(plan, seconds)
    if times.speed > 1:
        console.print(f"Played {times.speed:.0f} times as fast; the tables give the device's own times.\n")
    with tempfile.TemporaryDirectory(prefix="phasegate-demo-") as folder:
        options = ["--device", plan.device, "--model", plan.models[0], "--speed", str(times.speed)]
        async with stage(Path(folder), options) as on:
            theatre = Theatre(on, Audience(on.port, plan.models[0], SystemClock()), times, SEED)
            return await Show(theatre, console).acts()


@click.command()
@click.option("--seconds", default=60.0, show_default=True, type=Finite(5, LONGEST_S), help="How long, about.")
@click.option("--device", type=click.Choice(list(DEVICES)), default="h100", show_default=True, help="What to embed.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers alone, as JSON.")
@click.pass_context
def demo(context: click.Context, seconds: float, device: str, as_json: bool) -> None:
    """Three acts on an embedded engine: what long prompts and prefixes do to latency."""
    console = Console(quiet=as_json)
    plan = Plan(device=device)
    console.print(f"An 8B model on a simulated {plan.hardware.name}: vLLM's scheduling rules.")
    console.print("phasegate stands in front of it, as it would before yours.\n")
    try:
        measured = asyncio.run(perform(plan, seconds, console))
    except (StageError, ExceptionGroup, Unanswered, OSError) as error:
        tell(f"the demo broke off: {_reason(error)}")
        context.exit(UNREACHABLE)
    missed = [effect["says"] for effect in measured["effects"] if not effect["seen"]]
    if as_json:
        click.echo(json.dumps({"device": device, "seconds": seconds, **measured}, indent=2))
    for says in missed:
        click.echo(f"not seen this time: {says}", err=True)
    console.print(f"\nOn your own engine:  [bold]{programme.OWN_ENGINE}[/bold]", highlight=False, soft_wrap=True)
    context.exit(GOAL_MISSED if missed else 0)


def _reason(error: BaseException) -> str:
    """The first cause, in words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
