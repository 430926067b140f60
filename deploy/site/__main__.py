"""`python -m deploy.site`: renew the pages of `docs/reference` that are made from declarations."""

from __future__ import annotations

from pathlib import Path

from deploy.site.config_reference import render
from deploy.site.permissions_reference import renewed

_PAGES = Path(__file__).parents[2] / "docs" / "reference"


def main() -> None:
    """Write the pages."""
    (_PAGES / "configuration-reference.md").write_text(render(), encoding="utf-8")
    permissions = _PAGES / "permissions.md"
    permissions.write_text(renewed(permissions.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
