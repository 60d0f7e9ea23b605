"""`python -m proxy.office SOCKET MEMORY`: the office, on two inherited descriptors. Started by its keeper."""

import sys

from proxy.office.main import main

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
