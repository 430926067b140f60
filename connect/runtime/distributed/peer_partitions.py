"""Asks other workers of the group for the partitions of the tasks that they run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace

from connect.errors import ConnectError
from connect.log_fields import OwnedPool
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import ConnectorStatus, TaskStatus, decode_partitions
from connect.runtime.distributed.leader_client import InternalRequests, partitions_path

__all__ = ["TIMEOUT_S", "complete_status", "worker_url"]

TIMEOUT_S = 5.0
"""How long the other workers have to answer: all are asked at the same time."""

_MOST_AT_ONCE = 16

Partitions = Mapping[int, tuple[PartitionHealth, ...]]


def complete_status(
    status: ConnectorStatus, requests: InternalRequests, scheme: str, timeout_s: float = TIMEOUT_S
) -> ConnectorStatus:
    """`status` with the partitions of the tasks that run on other workers. If a worker does not
    answer in time, the task's `unknown` has the reason.

    `scheme`: of the workers' URLs, http or https. Call it on any thread that may wait.
    """
    owners = {task.status.worker_id for task in status.tasks if task.runs_elsewhere}
    answers = _ask_all(owners, status.name, requests, scheme, timeout_s)
    return replace(status, tasks=tuple(_completed(task, answers) for task in status.tasks))


def worker_url(worker_id: str, scheme: str) -> str | None:
    """The URL of the worker with this ID: `host:port`, in dedicated mode with a flow behind it.
    None: the ID has no port, so the worker has no REST listener."""
    host, _, port = worker_id.partition("/")[0].rpartition(":")
    if not host or not port.isdecimal():
        return None
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{shown}:{port}"


def _ask_all(
    owners: Collection[str],
    connector: str,
    requests: InternalRequests,
    scheme: str,
    timeout_s: float,
) -> Mapping[str, Partitions | str]:
    """Return, by worker ID, the worker's answer or the reason why there is none."""

    def ask(worker_id: str) -> Partitions:
        url = worker_url(worker_id, scheme)
        return decode_partitions(requests.get(url, partitions_path(connector), timeout_s))

    if not owners:
        return {}
    pool = OwnedPool(min(len(owners), _MOST_AT_ONCE), "partitions-of-workers")
    try:
        asked = {owner: pool.submit(ask, owner) for owner in owners}
        wait(asked.values(), timeout_s)
        return {owner: _outcome(owner, future, timeout_s) for owner, future in asked.items()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _outcome(owner: str, future: Future[Partitions], timeout_s: float) -> Partitions | str:
    if not future.done():
        return f"Worker {owner} has not answered within {timeout_s:g} s"
    error = future.exception()
    if isinstance(error, ConnectError):
        return f"Worker {owner} cannot be asked: {error}"
    return future.result()


def _completed(task: TaskStatus, answers: Mapping[str, Partitions | str]) -> TaskStatus:
    answer = answers.get(task.status.worker_id) if task.runs_elsewhere else None
    if answer is None:
        return task
    if isinstance(answer, str):
        return replace(task, unknown=answer)
    found = answer.get(task.number)
    if found is None:
        moved = f"Worker {task.status.worker_id} does not run the task any more; try again"
        return replace(task, unknown=moved)
    return replace(task, partitions=found, unknown=None)
