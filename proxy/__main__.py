"""`python -m proxy` is `phasegate`."""

from proxy.cli import main

main()
