"""The command line. Each verb is one module, loaded when it is called: `phasegate --help` imports none of them.

Exit codes: 0 ok, 1 a stated goal was missed, 2 usage or configuration, 3 an engine cannot be reached, 130 interrupted,
141 nobody reads on.
"""

import importlib
import io
import os
import sys
from importlib.metadata import version
from typing import Any

import click

VERBS = {
    "serve": ("proxy.cli.serve:serve", "Relay requests to engines and tell where their time goes."),
    "demo": ("proxy.cli.demo:demo", "Three acts on an embedded engine: what long prompts and prefixes do to latency."),
    "sim": ("proxy.cli.sim:sim", "Run the embedded engine, which knows the truth about every request."),
    "probe": ("proxy.cli.probe:probe", "Show what a prompt's length costs on one engine: 200 against 2,000 tokens."),
    "report": ("proxy.cli.report:report", "Percentiles, slowest requests and failures of what was recorded."),
    "audit": ("proxy.cli.audit:audit", "Say how well prefix caching works, and what text breaks it."),
    "config": ("proxy.cli.config:config", "Check or print the settings."),
}
"""Verb -> where it is, and what it is for; a new verb is one file and one line here."""

GOAL_MISSED = 1
USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130
"""128 and the number of SIGINT, as shells tell it. For `serve` that runs, a ^C is a wish to stop, and ends well."""
UNHEARD = 141
"""128 and the number of SIGPIPE: `phasegate report FILE | head -1`."""


class Verbs(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command; None for a word that is none."""
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def main(self, *args: Any, **how: Any) -> Any:
        """Runs it all. Where its words cannot be written it ends with one more, and no traceback."""
        try:
            return super().main(*args, **how)
        except OSError as error:
            click.echo(f"phasegate: cannot go on: {error.strerror or error}", err=True)
            sys.exit(USAGE)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the verb; a ^C ends it in one place, whatever it was at, and so does a reader that has gone."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("phasegate: interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # who reads no further needs no word
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor what is left in the buffer
            ctx.exit(UNHEARD)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without an import."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, purpose) for verb, (_, purpose) in VERBS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("phasegate"), prog_name="phasegate")
def main() -> None:
    """See where the time of every LLM request goes: queue, prefill, decode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that this terminal cannot show is no reason to end
