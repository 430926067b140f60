"""The documentation's links, its index, and the settings of its site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.docs.pages import DOCS, ROOT, Link, anchors, blocks, links, pages

_MENTIONED = re.compile(r"\b(?:api|connect|connectors|docs|tests|deploy)/[\w/.-]+\.(?:md|py)\b")


def _problem(link: Link) -> str:
    """What is wrong with a link; empty if nothing is."""
    path, _, anchor = link.target.partition("#")
    page = (link.page.parent / path).resolve() if path else link.page
    where = f"{link.page.relative_to(ROOT)}:{link.line}: {link.target}"
    if not page.exists():
        return f"{where}: no such file"
    if link.page.is_relative_to(DOCS) and not page.is_relative_to(DOCS):
        return f"{where}: is not on the site, which has only docs/"
    if anchor and anchor not in anchors(page):
        return f"{where}: no such heading"
    return ""


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [problem for link in links(page) if (problem := _problem(link))] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    named = _MENTIONED.findall(page.read_text(encoding="utf-8"))
    assert sorted({name for name in named if not (ROOT / name).exists()}) == []


def test_tables_of_files_name_files_that_exist() -> None:
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| file \(`([^`]+)`\).*\n((?:\|.*\n)+)", page, re.MULTILINE)
    named = [
        f"{folder}{name}"
        for folder, rows in tables
        for row in rows.splitlines()
        for name in re.findall(r"`([\w/]+\.py)`", row.split("|")[1])
    ]
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"[\w/-]+\.md", navigation)
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    there = {name for name in there if not name.startswith("decisions/")}
    assert set(named) == there
    assert len(named) == len(there)


def test_code_names_pages_that_exist() -> None:
    sources = [
        source
        for folder in ("api", "connect", "connectors", "deploy", "tests")
        for source in (ROOT / folder).rglob("*.py")
    ]
    missing = {
        f"{source.relative_to(ROOT)}: {name}"
        for source in [*sources, ROOT / "Makefile", ROOT / "CHANGELOG.md"]
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", source.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    }
    assert missing == set()


def test_blocks_have_titles_marks_and_indentation(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n"
        '```properties title="a.properties"\nkey = [no](link.md)\n```\n\n'
        "Text.\n\n"
        "1. Step:\n\n"
        "   <!-- test: background -->\n"
        "   ```bash\n   run it\n     more\n   ```\n\n"
        "   ```text\n   said\n   ```\n"
    )
    first, second, third = blocks(page)
    assert (first.language, first.title, first.follows) == ("properties", "a.properties", False)
    assert (second.language, second.mark, second.line) == ("bash", "background", 12)
    assert (second.text, second.follows) == ("run it\n  more\n", False)
    assert (third.text, third.follows) == ("said\n", True)
    assert list(links(page)) == []


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Moving, and `back`\n\n```bash\n# no heading\n```\n\n## TLS & SASL: how?\n")
    assert anchors(page) == {"moving-and-back", "tls--sasl-how"}
