"""What two processes have in common."""

import subprocess
import sys


def test_the_places_of_two_processes_have_nothing_in_common() -> None:
    said = {subprocess.check_output([sys.executable, "-c", "print(hash('text'))"], env={}) for _ in range(2)}
    assert len(said) == 2
