"""Serve the replica until the process is ended.

python -m filings.replica --port 8060
"""

from __future__ import annotations

import argparse
import asyncio

from filings.replica.site import Site, SiteOptions


async def serve(given: argparse.Namespace) -> None:
    """Serve the site."""
    site = Site(SiteOptions(given.rate, given.seconds, given.slow_seconds, given.troubled))
    port = await site.start(given.port)
    print(f"The replica is at http://127.0.0.1:{port}/Archives", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Read the command line."""
    options = argparse.ArgumentParser(prog="python -m filings.replica", description="Serve the replica.")
    options.add_argument("--port", type=int, default=8060, help="0 is any free one")
    options.add_argument("--rate", type=float, default=10.0, help="requests a second that it takes")
    options.add_argument("--seconds", type=float, default=0.05, help="how long a page takes")
    options.add_argument("--slow-seconds", type=float, default=1.5, help="how long one of twenty pages takes")
    options.add_argument("--troubled", type=float, default=0.15, help="share of pages that fail when first asked for")
    try:
        asyncio.run(serve(options.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
