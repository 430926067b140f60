"""Imports point down only: api, connectors, connect; in it runtime, storage, clients, protocol.

Everything of `connect` may use its plain foundations (errors, clock, plugin, loop, config, data,
metrics); `protocol` uses nothing but errors and the name of a partition. `deploy` is a tool beside
the product.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "connectors", "connect", "deploy")

# Layer -> what it may import of ours besides itself.
ALLOWED: dict[str, set[str]] = {
    "connect.errors": set(),
    "connect.clock": {"connect.errors"},
    "connect.topic_partition": set(),
    "connect.protocol": {"connect.errors", "connect.topic_partition"},
    "connect.config": {"connect.errors", "connect.clock"},
    "connect.metrics": {"connect.errors", "connect.clock", "connect.config"},
    "connect.data": {"connect.errors", "connect.config"},
    "connect.plugin": {
        "connect.errors",
        "connect.clock",
        "connect.config",
        "connect.data",
        "connect.metrics",
        "connect.topic_partition",
    },
    "connect.loop": {"connect.errors", "connect.clock"},
    "connect.version": set(),
    "connect.cache_directory": set(),
    "connect.java_home": set(),
}
FOUNDATIONS = set(ALLOWED)
ALLOWED["connect.clients"] = FOUNDATIONS
ALLOWED["connect.storage"] = FOUNDATIONS | {"connect.clients"}
ALLOWED["connect.runtime"] = FOUNDATIONS | {"connect.clients", "connect.storage"}
ALLOWED["connect.sdk"] = FOUNDATIONS | {"connect.runtime"}
ALLOWED["connectors"] = {layer for layer in ALLOWED if layer.startswith("connect.")}
ALLOWED["api"] = ALLOWED["connectors"] | {"connectors"}
ALLOWED["deploy"] = ALLOWED["api"] | {"api"}


def layer(module: str) -> str | None:
    """The layer a module of ours belongs to; None for modules that are not ours."""
    parts = module.split(".")
    if parts[0] not in PACKAGES:
        return None
    return ".".join(parts[:2]) if parts[0] == "connect" else parts[0]


def modules() -> list[Path]:
    return [
        path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.read_text().strip()
    ]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            if node.module == "connect":
                yield from (f"connect.{name.name}" for name in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = layer(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert own is not None
    found = {layer(name) for name in imported(path)} - {None, own, "connect"}
    assert found <= ALLOWED[own], f"{own} may not import {sorted(map(str, found - ALLOWED[own]))}"
