"""The site builds without a warning, is whole, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import sojourn

pytest.importorskip("material", reason="the site needs the extra [docs]")
pytest.importorskip("mkdocstrings", reason="the site needs the extra [docs]")

ROOT = Path(__file__).resolve().parents[2]
LOADS = {
    **{key: {"src"} for key in ("audio", "embed", "iframe", "img", "input", "script", "source")},
    **{"img": {"src", "srcset"}, "video": {"src", "poster"}, "object": {"data"}},
    **{"image": {"href", "xlink:href"}, "use": {"href", "xlink:href"}},
}
NOT_LOADED = {"canonical", "next", "prev", "alternate"}


class Loads(HTMLParser):
    """Collects what a browser would fetch for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.found += [given[name] for name in LOADS.get(tag, set()) & given.keys()]
        if tag == "link" and not set(given.get("rel", "").split()) <= NOT_LOADED:
            self.found.append(given.get("href", ""))
        self.found += in_css(given.get("style", ""))
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += in_css(data)


def in_css(text: str) -> list[str]:
    found = re.findall(r"url\(\s*[\"']?([^\"')]+)", text)
    return found + re.findall(r"@import\s+[\"']([^\"']+)", text)


def is_elsewhere(url: str) -> bool:
    return re.match(r"\s*([a-z+]+:)?//", url, re.I) is not None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    loaded = 0
    for page in pages:
        parser = Loads()
        parser.feed(page.read_text(encoding="utf-8"))
        loaded += len(parser.found)
        assert not [url for url in parser.found if is_elsewhere(url)], page
    assert loaded > len(pages)
    for sheet in site.rglob("*.css"):
        assert not [url for url in in_css(sheet.read_text(encoding="utf-8")) if is_elsewhere(url)]


def test_no_page_has_what_makes_the_theme_load_more(site: Path) -> None:
    """The theme's script fetches a drawing library for diagrams, and figures of a repository."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'class="mermaid|data-md-component="source"', text), page


def test_every_public_name_has_its_entry(site: Path) -> None:
    text = (site / "api" / "sojourn.html").read_text(encoding="utf-8")
    ids = set(re.findall(r'id="sojourn\.(\w+)"', text))
    assert set(sojourn.__all__) - {"__version__"} <= ids


def test_the_loads_of_a_page_are_seen() -> None:
    parser = Loads()
    parser.feed(
        '<link rel="stylesheet" href="https://a/x.css"><script src="//b/x.js"></script>'
        '<style>@import "http://c/x.css"; p {background: url(https://d/x.png)}</style>'
        '<link rel="canonical" href="https://here/"><a href="https://link/">x</a>'
        '<img src="x.png" srcset="https://e/x.png 2x">'
    )
    assert sorted(filter(is_elsewhere, parser.found)) == [
        *("//b/x.js", "http://c/x.css", "https://a/x.css", "https://d/x.png", "https://e/x.png 2x"),
    ]
    assert "x.png" in parser.found
