"""`python -m longshore`: the command line, for systems where scripts are not on the path."""

from __future__ import annotations

import sys

from longshore.cli import main

if __name__ == "__main__":
    sys.exit(main())
