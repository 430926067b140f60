"""Imports point down only: api, connectors, connect; in it runtime, storage, clients, protocol.
Inside the large packages, too: `INSIDE` lists their parts, lowest first.

Everything of `connect` may use its plain foundations (errors, clock, plugin, loop, config, data,
metrics); `protocol` uses nothing but errors and the name of a partition. `deploy` is a tool beside
the product.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# "About 25": a reader takes in a folder at one look.
MOST_ENTRIES = 26

PACKAGES = ("api", "connectors", "connect", "deploy")

# Layer -> what it may import of ours besides itself.
ALLOWED: dict[str, set[str]] = {
    "connect.errors": set(),
    "connect.clock": {"connect.errors"},
    "connect.topic_partition": set(),
    "connect.log_fields": set(),
    "connect.futures": set(),
    "connect.protocol": {"connect.errors", "connect.topic_partition"},
    "connect.config": {"connect.errors", "connect.clock"},
    "connect.metrics": {
        "connect.errors",
        "connect.clock",
        "connect.config",
        "connect.loop",
        "connect.version",
    },
    "connect.data": {"connect.errors", "connect.config"},
    "connect.plugin": {
        "connect.errors",
        "connect.clock",
        "connect.config",
        "connect.data",
        "connect.metrics",
        "connect.topic_partition",
    },
    "connect.loop": {"connect.errors", "connect.clock", "connect.log_fields"},
    "connect.version": set(),
    "connect.kafka_package": set(),
    "connect.__init__": {"connect.kafka_package"},
    "connect.cache_directory": set(),
    "connect.java_home": set(),
    "connect.pinned_jars": set(),
}
FOUNDATIONS = set(ALLOWED)
ALLOWED["connect.clients"] = FOUNDATIONS
ALLOWED["connect.storage"] = FOUNDATIONS | {"connect.clients"}
ALLOWED["connect.runtime"] = FOUNDATIONS | {"connect.clients", "connect.storage"}
ALLOWED["connect.sdk"] = FOUNDATIONS | {"connect.runtime"}
ALLOWED["connect.plugins"] = {"connect.sdk"}
ALLOWED["connectors"] = {layer for layer in ALLOWED if layer.startswith("connect.")}
ALLOWED["api"] = ALLOWED["connectors"] | {"connectors"}
ALLOWED["deploy"] = ALLOWED["api"] | {"api"}

# Parts of a package, lowest first. A part imports itself and parts of lower lines; parts of one
# line do not know each other.
INSIDE: dict[str, list[str]] = {
    "connect.clients": [
        "errors permissions rest_client warn_once",
        "security",
        "config",
        "wire",
        "cluster",
        "librdkafka",
        "groups transactions",
    ],
    "connect.runtime": [
        "errors rest_entities stages states thread_dumps",
        "connector_status",
        "plugins",
        "error_handling herder loggers restart_plan tasks worker_connector",
        "offset_stores",
        "sink source validation zombie_fence",
        "transfer",
        "task_factory",
        "worker",
        "offset_management",
        "abstract_herder",
        "work",
        "standalone",
        "distributed",
    ],
    "connectors": ["files spark", "mirror", "archive mirrormaker mirrormaker1", "dataframes"],
    "connectors.mirror": [
        "topic_routes",
        "api_support background config formats metrics",
        "history load_class",
        "filters replication_policy",
        "offsets topics",
        "settings",
        "copy inspect",
        "checkpoints compare retention",
        "audit backfill client failover heartbeat source",
        "spark",
        "plugins",
    ],
    "connectors.mirror.copy": [
        "known_logs memory rate_limiter topic_looks",
        "batches",
        "partition settings",
        "copied_ranges quarantine",
        "context",
        "positions throttle transactions quarantine_topic",
        "brokers producer_ids",
        "fetch_handler produce_handler stall_detector",
        "watch_list",
        "dispatcher",
        "engine",
        "range_copier",
        "rate_shares",
    ],
    "connectors.mirrormaker": [
        "config replication_loops required_permissions",
        "mirror_flow spark_at_launch",
        "flow_plans",
        "mirror_maker permissions",
        "worker_permissions",
        "check flow_lookup",
    ],
    "connectors.dataframes": [
        "schemas",
        "options reference",
        "tables",
        "data_source",
        "registration",
        "frames",
    ],
    "connectors.mirrormaker1": [
        "client_properties offset_checker plugins topics",
        "batch_copier lookup settings source_group",
        "record_copier",
        "source_mirror",
        "mirror_maker1",
    ],
    "api": [
        "audit_file http_protocol",
        "http_server",
        "ui",
        "dashboard",
        "rest",
        "dedicated",
        "cli",
    ],
}

# Modules that load what stands above them inside a function, so that a worker that needs no Spark
# does not import PySpark.
LATE = {
    "connectors/mirror/checkpoints/translation_engine.py": "spark",
    "connectors/mirror/settings/sync.py": "spark",
    "connectors/mirror/source/connector.py": "spark",
}


def layer(module: str) -> str | None:
    """The layer a module of ours belongs to; None for modules that are not ours."""
    parts = module.split(".")
    if parts[0] not in PACKAGES:
        return None
    return ".".join(parts[:2]) if parts[0] == "connect" else parts[0]


@cache
def modules() -> list[Path]:
    return [
        path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.read_text().strip()
    ]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@cache
def imports(path: Path) -> tuple[tuple[ast.Import | ast.ImportFrom, bool], ...]:
    """The imports of a module in their order, and of each whether it is for type checkers only."""
    return tuple(_imports(ast.parse(path.read_text()).body, for_types=False))


def _imports(
    statements: Iterable[ast.AST], *, for_types: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    # An import is a statement; expressions, which are most of a tree, contain none.
    for each in statements:
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield each, for_types
            continue
        typing = isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test)
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            yield from _imports(getattr(each, field, ()), for_types=for_types or typing)


def imported(path: Path) -> Iterator[str]:
    for node, _ in imports(path):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif node.module and not node.level:
            yield node.module
            if node.module == "connect":
                yield from (f"connect.{name.name}" for name in node.names)


def test_every_module_is_of_a_layer() -> None:
    assert {layer(dotted(path)) for path in modules()} <= set(ALLOWED)


@pytest.mark.parametrize("own", ALLOWED)
def test_imports_point_down(own: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules()
        if layer(dotted(path)) == own
        for name in imported(path)
        if layer(name) not in {None, own, "connect", *ALLOWED[own]}
    ]
    assert wrong == []


# Packages whose top imports their parts, and that several of our threads import late.
TOP_FIRST = ("pyspark", "sqlalchemy")


def runs(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a module that happen when it runs, in their order."""
    return (node for node, for_types in imports(path) if not for_types)


@pytest.mark.parametrize("package", TOP_FIRST)
def test_a_package_is_imported_before_its_parts(package: str) -> None:
    """A thread that imports a part holds the part's lock, and waits for the top; one that imports
    the top holds that, and waits for the part. Python breaks the deadlock by an ImportError."""
    wrong = []
    for path in modules():
        if path.is_relative_to(ROOT / "deploy"):
            continue
        tops = [folder / "__init__.py" for folder in reversed(path.relative_to(ROOT).parents)]
        names = [
            name
            for source in (*(ROOT / top for top in tops if (ROOT / top).exists()), path)
            for node in runs(source)
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
            if name.split(".")[0] == package
        ]
        if names and names[0] != package:
            wrong.append(f"{path.relative_to(ROOT)} imports {names[0]} first")
    assert wrong == []


def part(package: str, module: str) -> str | None:
    """The part of `package` that a module belongs to; None for modules of other packages."""
    if not module.startswith(f"{package}."):
        return None
    return module.removeprefix(f"{package}.").split(".")[0]


@pytest.mark.parametrize("package", INSIDE)
def test_every_part_of_a_package_has_a_place_in_its_order(package: str) -> None:
    folder = ROOT / package.replace(".", "/")
    parts = {
        entry.stem
        for entry in folder.iterdir()
        if (entry.suffix == ".py" and entry.stem != "__init__")
        or (entry.is_dir() and any(entry.glob("*.py")))
    }
    assert parts == {name for line in INSIDE[package] for name in line.split()}


@pytest.mark.parametrize("package", INSIDE)
def test_parts_of_a_package_import_lower_ones_only(package: str) -> None:
    height = {name: at for at, line in enumerate(INSIDE[package]) for name in line.split()}
    wrong = []
    for path in sorted((ROOT / package.replace(".", "/")).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        own = part(package, dotted(path))
        if own is None or own == "__init__":
            continue
        for module in imported(path):
            other = part(package, module)
            if other in (None, own) or other == LATE.get(name):
                continue
            if height.get(other, -1) >= height[own]:
                wrong.append(f"{name} imports {module}")
    assert wrong == []


def folders() -> list[Path]:
    roots = [ROOT / package for package in PACKAGES]
    return [
        folder
        for root in roots
        for folder in (root, *sorted(root.rglob("*")))
        if folder.is_dir() and folder.name != "__pycache__"
    ]


def test_no_folder_of_the_product_has_more_entries_than_one_can_know() -> None:
    sizes = {
        str(folder.relative_to(ROOT)): len(
            [entry for entry in folder.iterdir() if not entry.name.startswith("__")]
        )
        for folder in folders()
    }
    assert {name: size for name, size in sizes.items() if size > MOST_ENTRIES} == {}


TESTS = ROOT / "tests"
SUITES = ("unit", "integration", "compat", "faults")


def test_tests_import_no_tests() -> None:
    """What tests share is in `tests.support`, or beside or above them in a module without tests."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}: {reason}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in imported(path)
        if (reason := no_module_for(path, name)) is not None
    ]
    assert wrong == []


def no_module_for(path: Path, name: str) -> str | None:
    """Why a test may not import this module; None if it may."""
    *folder, module = name.split(".")
    if module.startswith("test_"):
        return "it has tests"
    if module == "conftest":
        return "it is pytest's"
    of_a_suite = folder[:1] == ["tests"] and (*folder, module)[1] in SUITES
    beside = ".".join(path.relative_to(ROOT).parent.parts)
    if of_a_suite and not f"{beside}.".startswith(f"{'.'.join(folder)}."):
        return "it is of other tests"
    return None
