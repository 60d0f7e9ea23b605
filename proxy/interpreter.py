"""What the interpreter is told in a process that keeps much, makes few cycles, and must not keep a stream waiting."""

import gc
import sys

YOUNG = 20_000
"""New objects between two looks: those of a hundred requests in flight, so that what lives as long as a request is
freed by its count and not walked first (Python's 700 are three requests)."""
OLDER = 50
"""Looks of one generation until the next older one is walked too."""

SWITCH_S = 0.001
"""Longest turn of a thread that works beside the loop (Python's is 5 ms): what is counted or hashed there in plain
Python holds a stream's next chunk no longer. Of 50,000 small messages it held one for 6 ms, and now for 3; the work
itself takes as long as before."""


def calm() -> None:
    """What is here now stays for good and is never walked again; call it once, when the process is set up.

    The code and its libraries are 55,000 objects: a walk over them stops every stream for 60 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDER)
    sys.setswitchinterval(SWITCH_S)
