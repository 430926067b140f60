"""The suites whose runs are recorded, and the code that each of them covers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SUITES", "Suite"]


@dataclass(frozen=True, slots=True)
class Suite:
    """`paths`: files and folders, from the root of the project. After a change to one of them the
    suite's last run says nothing about the code as it is."""

    paths: tuple[str, ...]


_PRODUCT = ("api", "connect", "connectors", "deploy", "requirements-test.lock")
_SIMULATED = ("connect", "connectors/mirror", "tests/simulation")

SUITES: dict[str, Suite] = {
    "slow": Suite((
        *_PRODUCT,
        "tests/compat",
        "tests/conftest.py",
        "tests/faults",
        "tests/golden",
        "tests/integration",
        "tests/support",
    )),
    "security": Suite((
        *_PRODUCT,
        "tests/compat",
        "tests/conftest.py",
        "tests/integration/clients",
        "tests/integration/connect",
        "tests/integration/dedicated",
        "tests/integration/secrets",
        "tests/support",
        "tests/unit/api",
        "tests/unit/connect",
        "tests/unit/connectors/mirrormaker",
    )),
    "faults": Suite((*_PRODUCT, "tests/conftest.py", "tests/faults", "tests/support")),
    "fuzz": Suite((
        "api/rest/bodies.py",
        "api/rest/json_text.py",
        "connect/config/properties.py",
        "connect/data",
        "connect/protocol",
        "connect/storage",
        "connectors/mirror/formats.py",
        "connectors/mirror/offsets/offset_map_pages.py",
        "tests/fuzz",
    )),
    "simulate": Suite(_SIMULATED),
    "mutants": Suite(_SIMULATED),
    "bench": Suite(("connect", "connectors/mirror", "tests/benchmarks")),
}  # fmt: skip
