"""One of the proof's workers: opens pages, replaces its browsers on the way, and says what it weighed.

python -P proof_worker.py KIND SITE PAGES TARGETS
"""

from __future__ import annotations

import asyncio
import json
import sys

import psutil

from longshore.scrape.browser import Browsers
from longshore.scrape.browser.processes import memory_of


async def main(kind: str, site: str, pages: int, targets: int) -> None:
    browsers = Browsers(kind, targets=targets)  # type: ignore[arg-type]
    own = psutil.Process()
    weights: list[dict[str, int]] = []
    seen: set[int] = set()
    for number in range(pages):
        async with browsers.page() as page:
            await page.open(f"{site}/page/{number}")
            assert "a page" in await page.html()
            # Measure each browser at the same age, so that the figures are comparable.
            if number % targets == targets - 1:
                weights.append({"own": own.memory_info().rss, "browser": memory_of(browsers.pids[0])})
        seen.update(each.pid for each in own.children(recursive=True))
    await browsers.close()
    left = [each.pid for each in own.children(recursive=True)]
    print(json.dumps({"weights": weights, "seen": sorted(seen), "left": left}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
