"""Check a built site: internal links have targets, and no page loads anything from the network.

``python docs/check_site.py docs/_build/html``
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a page loads a file when it is opened.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """Links, loaded files and anchors of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.loaded |= {values[name] for loader, name in LOADED if loader == tag and name in values}
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.add(values["href"])
        elif tag == "a" and "href" in values:
            self.links.add(values["href"])


def pages_of(folder: Path) -> list[Path]:
    """The pages of a site, without those that are files of its theme."""
    paths = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    return sorted(paths)


def problems(folder: Path) -> list[str]:
    """One line per dead link and per file that would be loaded from the network."""
    pages = {path: Page(path.read_text()) for path in pages_of(folder)}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder)
        found += [f"{name} loads {url}" for url in page.loaded if urlsplit(url).netloc]
        for url in page.links | page.loaded:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{name}: no such file: {url}")
                continue
            fragment = unquote(parts.fragment)
            if fragment and target in pages and fragment not in pages[target].anchors:
                found.append(f"{name}: no such place: {url}")
    return sorted(found)


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    if lines := problems(site):
        sys.exit("\n".join(lines))
    print(f"{len(pages_of(site))} pages: internal links have targets, nothing is loaded remotely")
