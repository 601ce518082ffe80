"""Serve the replica until the process is ended.

python -m registers.replica --port 8030
"""

from __future__ import annotations

import argparse
import asyncio

from registers.replica.site import Replica, SiteOptions


async def serve(given: argparse.Namespace) -> None:
    """Serve all registers."""
    options = SiteOptions(
        given.size, given.seconds, given.slow_seconds, given.troubled, given.unlimited, given.hold_after
    )
    port = await Replica(options).start(given.port)
    print(f"The replica is at http://127.0.0.1:{port}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, default=8030, help="the registers are on the seven ports after it")
    options.add_argument("--size", type=int, default=120, help="products of each register")
    options.add_argument("--seconds", type=float, default=0.05, help="how long a page takes")
    options.add_argument("--slow-seconds", type=float, default=1.5, help="how long one of twenty pages takes")
    options.add_argument("--troubled", type=float, default=0.02, help="share of pages that fail when first asked for")
    options.add_argument("--unlimited", action="store_true", help="without limits on how often a register is asked")
    options.add_argument("--hold-after", type=int, metavar="N", help="answer N pages, then wait for /NAME/go (tests)")
    try:
        asyncio.run(serve(options.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
