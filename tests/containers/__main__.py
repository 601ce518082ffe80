"""`make containers`: build the image, and try the compose file with real containers (needs root and podman).

The exit code is 0 if everything held, 1 if something did not, and 2 if this machine cannot run it.
"""

from __future__ import annotations

import sys
import time

from tests.containers.podman import Podman, missing
from tests.containers.trial import Trial


def main() -> int:
    """Run the trial; return the exit code."""
    if lacks := missing():
        print("make containers cannot run here:", *lacks, sep="\n  ", file=sys.stderr)
        return 2
    podman = Podman()
    began = time.monotonic()
    podman.build_images()
    print(f"ok: the images are built ({time.monotonic() - began:.0f} s)", flush=True)
    trial = Trial(podman)
    try:
        trial.run()
    finally:
        trial.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
