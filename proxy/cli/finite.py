"""Numbers on the command line: `nan` and `inf` are numbers to Python, and make no sense anywhere here."""

from math import isfinite
from typing import Any

import click


class Finite(click.FloatRange):
    """A number from a range, and no other thing that Python takes for one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error for what is none."""
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{number} is no number from a range.", param, ctx)
        return number
