"""`python -m proxy.office FD`: the office at its end of a socketpair. Started by its keeper, not by hand."""

import sys

from proxy.office.main import main

if __name__ == "__main__":
    main(int(sys.argv[1]))
