"""Serve the replica until the process is ended.

python -m yellowpages.replica --port 8020 --proxy-file proxies.txt
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from yellowpages.replica.limits import LimitOptions
from yellowpages.replica.site import Site, SiteOptions


async def serve(given: argparse.Namespace) -> None:
    """Serve the site and its proxies."""
    limits = LimitOptions(rate=given.rate)
    site = Site(
        SiteOptions(seconds=given.seconds, slow_seconds=given.slow_seconds, troubled=given.troubled, limits=limits)
    )
    port, proxies = await site.start(given.port, given.proxies)
    if given.proxy_file is not None:
        # Two of the forms that proxy files have.
        forms = ("127.0.0.1:{}\n", "http://127.0.0.1:{}\n")
        lines = [forms[number % 2].format(each) for number, each in enumerate(proxies)]
        given.proxy_file.write_text("# The proxies of the replica.\n" + "".join(lines), encoding="utf-8")
    print(f"The replica is at http://127.0.0.1:{port}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, default=8020, help="of the site; the proxies are on the following ports")
    options.add_argument("--proxies", type=int, default=50, help="how many proxies there are")
    options.add_argument("--proxy-file", type=Path, help="where to write a list of the proxies")
    options.add_argument("--rate", type=float, default=2.0, help="requests a second that each address may make")
    options.add_argument("--seconds", type=float, default=0.05, help="how long a page takes")
    options.add_argument("--slow-seconds", type=float, default=1.5, help="how long one of twenty pages takes")
    options.add_argument("--troubled", type=float, default=0.08, help="share of pages that fail when first asked for")
    try:
        asyncio.run(serve(options.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
