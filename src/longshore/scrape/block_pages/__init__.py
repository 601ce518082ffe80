"""Recognise block pages: pages with an ordinary status by which a site refuses a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.system.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from longshore.scrape.block_pages.detector import BlockDetector
    from longshore.scrape.block_pages.rule import BlockPage, parse_block_pages

__all__ = ["BlockDetector", "BlockPage", "parse_block_pages"]

__getattr__ = lazy_exports(__name__, {"BlockDetector": "detector", "BlockPage": "rule", "parse_block_pages": "rule"})
