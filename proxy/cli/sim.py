"""`phasegate sim`: the embedded engine in a process of its own."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TextIO

import click
import uvicorn

from proxy.cli.apart import idle
from proxy.cli.finite import Finite
from proxy.cli.footing import claim, unclaimed
from proxy.cli.saying import stop
from proxy.clock import SystemClock
from proxy.plain import fault
from proxy.sim.devices import DEVICES
from proxy.sim.jobs import Truth
from proxy.sim.openai import Habits
from proxy.sim.plan import Plan
from proxy.sim.server import as_line, build

MOST = 10**9
SOME, ANY = click.IntRange(1, MOST), click.IntRange(0, MOST)
"""Tokens and requests: beyond what engines have."""
BLOCKS, SLOTS = click.IntRange(1, 10**7), click.IntRange(1, 10**4)
"""Each is kept, and takes memory."""
ALIEN = {
    "vllm": ("slots", "loaded", "max_queue", "load_s"),
    "ollama": (
        *("budget", "sequences", "long_prefill", "block", "blocks"),
        *("stream_interval", "max_queued", "plain"),
    ),
}
"""Options that are the other kind's alone."""
SIZE, TIMES, BITS, SECONDS = Finite(0.001, 1e6), Finite(0.001, 1e6), Finite(0.1, 64), Finite(0, 3600)


@click.command()
@click.option("--port", type=click.IntRange(1, 65_535), default=8000, show_default=True, help="Port on 127.0.0.1.")
@click.option("--kind", type=click.Choice(["vllm", "ollama"]), default="vllm", show_default=True)
@click.option("--device", type=click.Choice([*DEVICES, "study"]), default="h100", show_default=True)
@click.option("--parameters", type=SIZE, default=8.03, show_default=True, help="Model size, in billions.")
@click.option("--bits", type=BITS, default=16.0, show_default=True, help="Bits a weight.")
@click.option("--model", "models", multiple=True, default=["llama-3.1-8b"], help="Model name; Ollama takes several.")
@click.option("--max-num-batched-tokens", "budget", type=SOME, help="vLLM: tokens a step.")
@click.option("--max-num-seqs", "sequences", type=SOME, help="vLLM: running requests.")
@click.option(
    "--long-prefill-token-threshold", "long_prefill", type=ANY, default=0, help="vLLM: tokens of one prompt a step."
)
@click.option("--block-size", "block", type=SOME, default=16, show_default=True, help="vLLM: tokens a KV block.")
@click.option("--num-gpu-blocks", "blocks", type=BLOCKS, help="vLLM: KV blocks.")
@click.option("--max-model-len", "window", type=SOME, default=131_072, show_default=True)
@click.option("--slots", type=SLOTS, default=1, show_default=True, help="Ollama: OLLAMA_NUM_PARALLEL.")
@click.option("--loaded", type=SOME, default=1, show_default=True, help="Ollama: OLLAMA_MAX_LOADED_MODELS.")
@click.option("--max-queue", type=ANY, default=512, show_default=True, help="Ollama: OLLAMA_MAX_QUEUE.")
@click.option("--load-seconds", "load_s", type=SECONDS, help="Ollama: time to load a model.")
@click.option("--stream-interval", type=SOME, default=1, show_default=True, help="vLLM: tokens a chunk.")
@click.option("--max-num-queued-reqs", "max_queued", type=ANY, help="vLLM: requests waiting and running, before 503.")
@click.option("--plain", is_flag=True, help="vLLM without flags: no metrics object, no cached tokens, no request ids.")
@click.option("--seed", default=0, show_default=True)
@click.option("--speed", type=TIMES, default=1.0, show_default=True, help="Times as fast as the device is.")
@click.option("--truth", type=click.Path(path_type=Path, dir_okay=False), help="Write the truth, one JSON line each.")
@click.pass_context
def sim(
    context: click.Context,
    /,
    port: int,
    plain: bool,
    stream_interval: int,
    max_queued: int | None,
    truth: Path | None,
    models: tuple[str, ...],
    **chosen: object,
) -> None:
    """Run the embedded engine: real scheduling rules, invented words, and the truth about every request."""
    kind = str(chosen["kind"])
    idle(context, ALIEN[kind], f"--kind is {kind}")
    if kind == "vllm" and len(models) > 1:
        raise click.UsageError("--model: vLLM serves one; --kind ollama takes several")
    chosen["parameters"] = float(str(chosen["parameters"])) * 1e9
    habits = Habits(
        request_metrics=not plain,
        prompt_details=not plain,
        request_id_headers=not plain,
        stream_interval=stream_interval,
        max_queued=max_queued,
    )
    plan = Plan(models=models, habits=habits, **chosen)  # type: ignore[arg-type]  # click has checked them
    with ExitStack() as stack:
        try:
            claim(f"127.0.0.1:{port}")
        except OSError as error:
            stop(f"cannot listen on 127.0.0.1:{port}: {unclaimed(error)}; --port gives another")
        try:
            out = stack.enter_context(truth.open("a", buffering=1)) if truth else None
            server = build(plan, SystemClock(), partial(_tell, out))
        except OSError as error:
            stop(f"cannot write {truth}: {fault(error)}")
        except ValueError as error:  # the model does not fit the device; a NUL in the name
            stop(str(error))
        click.echo(f"simulating {', '.join(models)} at http://127.0.0.1:{port}", err=True)
        config = uvicorn.Config(server, host="127.0.0.1", port=port, ws="none", log_level="warning", access_log=False)
        uvicorn.Server(config).run()  # `uvicorn.run` would keep a ^C to itself


def _tell(out: TextIO | None, one: Truth) -> None:
    if out is not None:
        out.write(as_line(one))
