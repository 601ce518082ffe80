"""The templates of `longshore init`: a folder to start from for each kind of work."""

from __future__ import annotations

from longshore.cli.verbs.setup.templates.class_template import CLASS
from longshore.cli.verbs.setup.templates.crawl import CRAWL
from longshore.cli.verbs.setup.templates.documents import DOCUMENTS
from longshore.cli.verbs.setup.templates.items import ITEMS
from longshore.cli.verbs.setup.templates.pages import PAGES
from longshore.cli.verbs.setup.templates.template import InitTemplate

TEMPLATES: dict[str, InitTemplate] = {
    "pages": PAGES,
    "crawl": CRAWL,
    "items": ITEMS,
    "documents": DOCUMENTS,
    "class": CLASS,
}
"""Every template by its name; the first is the default."""
