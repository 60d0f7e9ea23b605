"""The end of a process whose log nobody reads."""

import subprocess
import sys


def test_the_interpreter_ends_while_a_line_is_being_written() -> None:
    """A thread that waits in a write must not keep the process, nor crash it."""
    program = (
        "import os; from proxy.office.outlet import Outlet; read, write = os.pipe(); out = Outlet(write, str)\n"
        "for _ in range(3000): out.put('x' * 99)\n"
        "out.close(0.1); print('ended')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
