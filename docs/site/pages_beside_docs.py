"""What the site needs beyond MkDocs: pages that lie beside `docs/`, and a search that works without a network.

The README is the first page.

A page keeps its path (`ARCHITECTURE.md`, `benchmarks/RESULTS.md`); links from and to it are made to fit. A link to a
file that is no page, such as an example, offers that file as it is.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
HOME = "index.md"
SEARCH_SHIM = "https://unpkg.com/iframe-worker/shim"
SHIM_IN_SITE = "assets/javascripts/iframe-worker.js"
FENCE = re.compile(r"^(?P<fence> *```)(?P<language>\w+)(?P<options>[^\n]*)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")


def paths() -> list[str]:
    """Return the pages beside `docs/`, as paths from the root of the repository."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("examples/*.md")]
    found += [*ROOT.glob("recipes/*/*.md"), *ROOT.glob("deploy/*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def place_in_site(path: str) -> str:
    """Return where a file of the repository lies in the site."""
    return HOME if path == "README.md" else path.removeprefix("docs/")


def place_in_repository(path: str) -> str:
    """Return which file of the repository a file of the site is."""
    return "README.md" if path == HOME else path if path in paths() else f"docs/{path}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages beside `docs/`, and the files that any page links to."""
    for path in paths():
        files.append(File.generated(config, place_in_site(path), content=(ROOT / path).read_text()))
    shim = ROOT / "docs" / "site" / "vendor" / "iframe-worker.js"
    files.append(File.generated(config, SHIM_IN_SITE, content=shim.read_bytes()))
    for page in [*files.documentation_pages()]:
        source = place_in_repository(page.src_uri)
        for found in LINK.finditer(page.content_string):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["target"]))
            there = place_in_site(target)
            if not target.startswith("docs/") and (ROOT / target).is_file() and files.get_file_from_path(there) is None:
                files.append(File.generated(config, there, content=(ROOT / target).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links that lead to where their targets lie in the site."""
    del config, files
    source = place_in_repository(page.file.src_uri)

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["target"]))
        if (ROOT / target / "README.md").is_file():
            target += "/README.md"
        start = posixpath.dirname(page.file.src_uri) or "."
        return posixpath.relpath(place_in_site(target), start) + (found["anchor"] or "")

    return LINK.sub(moved, FENCE.sub(_fence, markdown))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Return the page with our copy of the script that searches in pages opened as files; by default it is fetched."""
    del config
    return output.replace(SEARCH_SHIM, posixpath.relpath(SHIM_IN_SITE, posixpath.dirname(page.file.dest_uri) or "."))


def _fence(found: re.Match[str]) -> str:
    """Return the first line of a code block: the site shows the name of a file as its title, and no other option."""
    name = re.search(r"\bfile=(\S+)", found["options"])
    return f"{found['fence']}{found['language']}" + (f' title="{name[1]}"' if name else "")
