"""A connector's overrides reach its clients through the worker's policy, and in no other way.

`ClientProperties` asks the policy and joins the overrides to the worker's properties, which have
its login. Whoever got at either in another way could send that login where a connector says.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("connect", "connectors", "api")
CLIENTS = "connect/runtime/plugins/connector_clients.py"

# What joins or reads overrides -> the modules that call it.
GUARDED = {
    "ClientProperties": {CLIENTS},
    "ConnectorClients": {
        # For tools, of the operator's own file.
        "connectors/mirror/inspect/flow.py",
    },
    "of_worker": {
        "connect/runtime/worker.py",
        # For `--check`, under the worker's own policy.
        "api/cli/standalone.py",
    },
    "overrides_of": {CLIENTS, "connect/runtime/validation/validator.py"},
    "task_admin_properties": {CLIENTS},
    "task_consumer_properties": {
        CLIENTS,
        # Asks only for the name of the group.
        "connectors/mirrormaker/worker_permissions.py",
    },
    "task_producer_properties": {
        CLIENTS,
        # Checks the operator's own file.
        "connectors/mirrormaker/config/mm2_properties.py",
        # `--check` of the worker itself, without a connector's overrides.
        "connectors/mirrormaker/check/worker_permission_checks.py",
    },
    # librdkafka's own clients: only the factory has them.
    "AdminClient": set(),
    "Consumer": set(),
    "Producer": set(),
}

# Names of `connect.clients` with which nobody reaches a broker by properties.
HARMLESS = {
    "Cancellation",
    "Delivered",
    "GroupTimeouts",
    "JAAS_KEY",
    "KeepTrying",
    "OneShotThreads",
    "Poller",
    "READ",
    "RestClient",
    "SystemPoller",
    "TRANSACTION_TIMEOUT",
    "TopicDescription",
    "TopicSpec",
    "broker_code",
    "from_librdkafka",
    "not_authorized",
    "parse_jaas",
    "produce_settings",
    "refused_or_unsupported",
    "translated",
}

OF_CLIENT_PROPERTIES = {
    "offset_stores.py": {"TransactionalSender"},
    "sink/consumer.py": {"LoginRefusals", "factory", "librdkafka_config"},
    "sink/dead_letter_queue.py": {"Admin", "RecordSender"},
    "sink/group_offsets.py": {"GroupOffsets"},
    "sink/task.py": {"need_resolvable"},
    "source/exactly_once_task.py": {"TransactionalProducer"},
    "source/loop.py": {"need_resolvable"},
    "source/producer.py": {"RecordSender"},
    "source/topic_creator.py": {"Admin"},
    "task_factory.py": {
        "Admin",
        "TransactionCoordinator",
        "TransactionalProducer",
        "wire_settings",
    },
    "transfer/transactions.py": {"TransactionCoordinator"},
    "zombie_fence.py": {"fence_producers"},
}
"""Modules of the runtime that make clients of connectors, or get them made."""
OF_THE_WORKER = {
    "abstract_herder.py": {"Admin"},
    "distributed/herder.py": {"GroupMember"},
    "distributed/herder_thread.py": {"GroupMember"},
}
"""Those with clients of the worker itself, which no connector's config changes."""


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@cache
def callers() -> dict[str, set[str]]:
    """The modules that call each name. What is before its last dot does not count."""
    found: dict[str, set[str]] = {}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                found.setdefault(name, set()).add(path)
    return found


@pytest.mark.parametrize("name", GUARDED)
def test_only_these_modules_call_it(name: str) -> None:
    assert callers().get(name, set()) == GUARDED[name]


def test_nothing_else_of_the_runtime_makes_clients() -> None:
    """A module that is new here must get its properties from `ClientProperties`, or from the worker
    alone."""
    folder = "connect/runtime/"
    makers = {
        path.removeprefix(folder): names
        for path, tree in modules().items()
        if path.startswith(folder) and (names := taken_from_clients(tree) - HARMLESS)
    }
    assert makers == OF_CLIENT_PROPERTIES | OF_THE_WORKER


def taken_from_clients(tree: ast.Module) -> set[str]:
    """What a module imports of `connect.clients`. A whole module counts by its last name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("connect.clients."):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
            found |= {n.split(".")[-1] for n in names if n.startswith("connect.clients")}
    return found
