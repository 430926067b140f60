"""`--check` of workers: whether the cluster answers, which topics would be created and which
permissions are missing. Changes nothing. Its result has the same parts as that of `connect-mirror
check`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping

from api.cli.output.check import WorkerCheck, print_worker_check, worker_check_document
from api.cli.output.formats import print_result
from api.cli.program import EXIT_FAILED, EXIT_OK
from api.cli.worker_start.cluster_contact import unreachable
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.topic_log import TopicSpec
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connectors.mirrormaker.check.report import (
    CREATE,
    EXISTS,
    ClusterReport,
    Finding,
    Level,
    TopicReport,
)
from connectors.mirrormaker.worker_permissions import WORKER

__all__ = ["check_worker"]

_TIMEOUT_S = 10.0


def check_worker(
    arguments: argparse.Namespace,
    config: WorkerConfig,
    topics: Mapping[str, TopicSpec],
    permissions: Callable[[], Iterator[Finding]],
) -> int:
    """Print what the worker would find. `topics`: its internal topics by the first word of their
    keys. `permissions`: asks which are missing. Returns the exit code: 0, or 1 if something would
    keep it from working."""
    found = _look(config, topics)
    if found.cluster.cluster_id is not None:
        _add_permissions(found, permissions)
    print_result(
        arguments,
        lambda: worker_check_document(found),
        lambda output: print_worker_check(found, output=output),
    )
    return EXIT_OK if found.can_run else EXIT_FAILED


def _look(config: WorkerConfig, topics: Mapping[str, TopicSpec]) -> WorkerCheck:
    client = config.own_client_properties("check")
    servers = client.get("bootstrap.servers", "")
    trouble = unreachable(client)
    if trouble is not None:
        return _unreached(servers, trouble)
    admin = Admin(client)
    try:
        existing = admin.list_topics(_TIMEOUT_S)
        brokers = admin.broker_count(_TIMEOUT_S)
        cluster_id = admin.cluster_id(_TIMEOUT_S)
    except ConnectError as error:
        return _unreached(servers, str(error))
    finally:
        admin.close()
    found = WorkerCheck(ClusterReport(WORKER, servers, cluster_id, brokers, len(existing)))
    for family, spec in topics.items():
        _add_topic(found, family, spec, existing.get(spec.name))
    return found


def _add_permissions(found: WorkerCheck, permissions: Callable[[], Iterator[Finding]]) -> None:
    try:
        found.findings.extend(permissions())
    except ConnectError as error:
        text = f"the check of permissions could not finish: {error}"
        found.findings.append(Finding(Level.ERROR, WORKER, text))


def _unreached(servers: str, trouble: str) -> WorkerCheck:
    found = WorkerCheck(ClusterReport(WORKER, servers, error=trouble))
    found.findings.append(Finding(Level.ERROR, WORKER, trouble))
    return found


def _add_topic(found: WorkerCheck, family: str, spec: TopicSpec, existing: int | None) -> None:
    """Add a topic that exists with this number of partitions, or that the worker would create."""
    if existing is not None:
        found.topics.append(TopicReport(spec.name, spec.name, existing, EXISTS))
        return
    factor, brokers = spec.replication_factor, found.cluster.brokers
    found.topics.append(
        TopicReport(spec.name, spec.name, spec.partitions, CREATE, factor, dict(spec.configs))
    )
    if factor > brokers:
        text = (
            f"{factor} is higher than the number of brokers, {brokers}: lower it or start more "
            "brokers"
        )
        key = f"{family}.storage.replication.factor"
        found.findings.append(Finding(Level.ERROR, key, text))
