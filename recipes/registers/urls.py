"""Write the URLs of a distributed register of the replica into a file.

python -m registers.urls India -o india.txt
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from longshore import LongshoreError
from registers.config import replica_urls
from registers.scrapers import find


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file."""
    options = argparse.ArgumentParser(prog="python -m registers.urls", description=__doc__.partition("\n")[0])
    options.add_argument("scraper", help="its name")
    options.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the file")
    given = options.parse_args(arguments)
    try:
        urls = replica_urls(find(given.scraper).name)
    except (LongshoreError, OSError) as error:
        print(f"urls: {error}", file=sys.stderr)
        return 2
    given.out.write_text("".join(f"{url}\n" for url in urls), encoding="utf-8")
    print(f"{len(urls):,} URLs in {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
