"""`python -m longshore`: the command line, for when the script `longshore` is not on the path."""

from __future__ import annotations

import sys

from longshore.cli import main

if __name__ == "__main__":
    sys.exit(main())
