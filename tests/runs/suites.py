"""The suites whose runs are recorded, the code that each covers, and what a whole run is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ALL", "SUITES", "Suite"]

ALL = "all"
"""What a run is said to be that no variable limits; also the one part of a suite without parts."""


@dataclass(frozen=True, slots=True)
class Suite:
    """`paths`: files and folders, from the root of the project. After a change to one of them the
    suite's last run says nothing about the code as it is.

    `variables`: what is set in the environment to choose what runs. A run's line names them all. A
    run is whole if each of `least` was set to that number or range, or to a wider one, and no
    other variable was set. A suite with `parts` may run one of them at a time: `part_by` names it,
    and runs of all parts, each whole, are as good as one run.

    `measure`: the noun of the count that says how wide a run was."""

    paths: tuple[str, ...]
    variables: tuple[str, ...] = ()
    least: Mapping[str, str] = field(default_factory=dict)
    part_by: str = ""
    parts: tuple[str, ...] = (ALL,)
    measure: str = ""

    def ran(self, environment: Mapping[str, str]) -> str:
        """What a run in this environment is limited to, as its line says it."""
        given = [f"{name}={environment[name]}" for name in self.variables if environment.get(name)]
        return shlex.join(given) or ALL

    def covers(self, ran: str) -> frozenset[str]:
        """The parts that a run wholly covers; none if it was narrower than `least`."""
        given = _settings(ran)
        part = given.pop(self.part_by, None)
        if any(name not in self.least for name in given):
            return frozenset()
        if not all(_reaches(given.get(name, ""), least) for name, least in self.least.items()):
            return frozenset()
        chosen = self.parts if part is None else (part,)
        return frozenset(self.parts).intersection(chosen)

    def part_of(self, ran: str) -> str:
        """The part that a run was limited to, `ALL` for none."""
        part = _settings(ran).get(self.part_by, ALL)
        return part if part in self.parts else ALL

    def needed(self) -> str:
        """A phrase: what a whole run is."""
        least = " ".join(f"{name}={value}" for name, value in self.least.items())
        of = f"of {', '.join(self.parts)}" if self.part_by else ""
        return " ".join(filter(None, (least, of))) or "all of it"


def _settings(ran: str) -> dict[str, str]:
    """The variables that a line names. Words that are none, of a line written by hand, are like an
    unknown variable."""
    if ran == ALL:
        return {}
    try:
        words = shlex.split(ran)
    except ValueError:
        words = ran.split()
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _reaches(given: str, least: str) -> bool:
    """Whether a number is as high, or a range FIRST-LAST as wide."""
    try:
        numbers, wanted = ([int(each) for each in text.split("-")] for text in (given, least))
    except ValueError:
        return False
    if len(numbers) != len(wanted):
        return False
    return numbers[-1] >= wanted[-1] and (len(wanted) == 1 or numbers[0] <= wanted[0])


_PRODUCT = ("api", "connect", "connectors", "deploy", "requirements-test.lock")
_SIMULATED = ("connect", "connectors/mirror", "tests/simulation")
_WORLDS = ("copier", "groups", "mirror", "workers")
_LIMITS_OF_TESTS = ("FAULT_WITHOUT", "PYTEST_ADDOPTS")

SUITES: dict[str, Suite] = {
    "slow": Suite(
        (
            *_PRODUCT,
            "tests/compat",
            "tests/conftest.py",
            "tests/faults",
            "tests/golden",
            "tests/integration",
            "tests/support",
        ),
        variables=_LIMITS_OF_TESTS,
        measure="passed",
    ),
    "security": Suite(
        (
            *_PRODUCT,
            "tests/compat",
            "tests/conftest.py",
            "tests/integration/clients",
            "tests/integration/connect",
            "tests/integration/dedicated",
            "tests/integration/mirrormaker1",
            "tests/integration/secrets",
            "tests/integration/spark/test_spark_rpc.py",
            "tests/integration/spark/test_spark_security.py",
            "tests/support",
            "tests/unit/api",
            "tests/unit/connect",
            "tests/unit/connectors/mirrormaker",
            "tests/unit/connectors/spark",
            "tests/unit/deploy/test_audit.py",
            "tests/unit/test_canaries.py",
            "tests/unit/test_connector_clients.py",
        ),
        variables=_LIMITS_OF_TESTS,
        measure="passed",
    ),
    "faults": Suite(
        (*_PRODUCT, "tests/conftest.py", "tests/faults", "tests/support"),
        variables=("FAULT_SEED", "FAULT_MINUTES", "FAULT_FORM", *_LIMITS_OF_TESTS),
        measure="passed",
    ),
    "fuzz": Suite(
        (
            "api/rest/bodies.py",
            "api/rest/json_text.py",
            "connect/config/properties.py",
            "connect/data",
            "connect/protocol",
            "connect/storage",
            "connectors/mirror/formats.py",
            "connectors/mirror/offsets/offset_map_pages.py",
            "tests/fuzz",
        ),
        variables=("FUZZ_SECONDS",),
        least={"FUZZ_SECONDS": "20"},
        measure="seconds each",
    ),
    "simulate": Suite(
        _SIMULATED,
        variables=("WORLD", "SEEDS"),
        least={"SEEDS": "0-1000"},
        part_by="WORLD",
        parts=_WORLDS,
        measure="seeds each",
    ),
    "mutants": Suite(
        _SIMULATED, variables=("WORLD",), part_by="WORLD", parts=_WORLDS, measure="defects"
    ),
    "bench": Suite(("connect", "connectors/mirror", "tests/benchmarks")),
}  # fmt: skip
