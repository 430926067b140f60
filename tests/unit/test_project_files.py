"""What the files about the project say is true: paths, hooks, the list of decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DECISIONS]

_PATH = re.compile(r"`((?:api|connect|connectors|deploy|docs|tests)/[\w./-]+)`")
_LINK = re.compile(r"\]\(([^)#]+)")
_MAKE = re.compile(r"`make ([\w-]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    targets = (ROOT / "Makefile").read_text()
    named = [ROOT / path for path in _PATH.findall(text)]
    linked = [page.parent / link for link in _LINK.findall(text)]
    assert [str(path) for path in (*named, *linked) if not path.exists()] == []
    assert [each for each in _MAKE.findall(text) if f"\n{each}:" not in targets] == []


def test_the_hooks_check_what_make_check_checks() -> None:
    hooks = re.findall(
        r"entry: \.venv/(.*)", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    )
    makefile = (ROOT / "Makefile").read_text()
    tools = re.findall(r"\$\(BIN\)/(ruff .*)", makefile) + re.findall(
        r"^MYPY := \$\(BIN\)/(.*)", makefile, re.MULTILINE
    )
    # A hook gets the files that changed in place of the directory.
    asked = [hook.replace(" --force-exclude", "") for hook in hooks]
    assert [tool.removesuffix(" .").replace("bin/", "") for tool in tools] == [
        each.removeprefix("bin/") for each in asked
    ]


def test_every_decision_is_listed_and_has_all_parts() -> None:
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for number, page in enumerate(DECISIONS, start=1):
        text = page.read_text()
        assert page.name.startswith(f"{number:04}-")
        assert f"]({page.name})" in listed
        assert text.startswith(f"# {number:04}: ")
        assert re.findall(r"^## (.*)", text, re.MULTILINE) == [
            "Context", "Decision", "Consequences", "Measured",
        ]  # fmt: skip
