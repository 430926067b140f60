"""The documentation as data: code blocks, headings and links of Markdown pages."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DOCS", "ROOT", "Block", "Link", "anchors", "blocks", "links", "pages"]

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
STOP = "<!-- test: stop -->"

_FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]*)"')
_MARK = re.compile(r"<!-- test: (.*?) -->\s*\Z")
_INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(\s*([^)\s]+)(?:\s+\"[^\"]*\")?\s*\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block. `title` and `mark` are empty where the page has none."""

    language: str
    title: str
    mark: str
    """The text of a comment `<!-- test: ... -->` right before the block."""
    text: str
    """Without the indentation of the fence; ends with a newline."""
    line: int
    """The number of the line with the opening fence."""
    follows: bool
    """Whether there is nothing but blank lines between the block before and this one."""
    stops: bool
    """Whether `<!-- test: stop -->` stands between the block before and this one."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page to a file of the repository."""

    page: Path
    target: str
    line: int


def pages() -> list[Path]:
    """README.md and all pages of docs/."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced code blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for fence in _FENCE.finditer(text):
        words = fence[3].strip()
        title = _TITLE.search(words)
        mark = _MARK.search(text, end, fence.start())
        found.append(
            Block(
                language=words.split(" ")[0],
                title=title[1] if title else "",
                mark=mark[1] if mark else "",
                text=textwrap.dedent(fence[4]),
                line=text.count("\n", 0, fence.start()) + 1,
                follows=bool(found) and not text[end : fence.start()].strip(),
                stops=STOP in text[end : fence.start()],
            )
        )
        end = fence.end()
    return found


def links(page: Path) -> Iterator[Link]:
    """The page's links that lead to files or headings of the repository, not to other hosts."""
    text = _without_code(page.read_text(encoding="utf-8"))
    for found in _LINK.finditer(text):
        if not re.match(r"[a-z]+:", found[1]):
            yield Link(page, found[1], text.count("\n", 0, found.start()) + 1)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,6} +(.*?) *#*$", text, re.MULTILINE)
    return {_anchor(heading) for heading in headings}


def _anchor(heading: str) -> str:
    shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", shown.strip().lower()))


def _without_code(text: str) -> str:
    """With blanks in the place of code; lines keep their numbers."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return _INLINE_CODE.sub(blank, _FENCE.sub(blank, text))
