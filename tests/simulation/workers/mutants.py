"""Known and realistic defects of worker groups, put back one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from connect.runtime.distributed.config_changes import PendingChanges
from connect.runtime.distributed.herder_thread import HerderLoop
from connect.runtime.distributed.leadership import Leading
from connect.runtime.distributed.membership import Membership
from connect.runtime.distributed.rebalance_listener import Rebalancing
from connect.runtime.distributed.session_keys import SessionKeys
from connect.runtime.states import InstanceId
from connect.runtime.transfer.task import WorkerTransferTask
from connect.runtime.work.running_work import RunningWork
from connect.runtime.work.task_config_publisher import TaskConfigPublisher
from connect.storage import config_records
from connect.storage.config_records import RestartRequest
from connect.storage.kafka_config_store import KafkaConfigStore
from tests.simulation.mutants import Mutant, replaced

__all__ = ["MUTANTS"]


def _steps_after_failure(self: WorkerTransferTask, seconds: float) -> None:
    self._task.step(seconds)


def _nothing(*_arguments: object) -> None:
    """Does not do it."""


def _commit_first(
    self: KafkaConfigStore, connector: str, configs: Sequence[Mapping[str, str | None]]
) -> None:
    deadline = self._budget()
    commit = config_records.encode_task_commit(len(configs))
    self._send_privileged([(config_records.commit_key(connector), commit)], deadline)
    for task, config in enumerate(configs):
        key = config_records.task_key(InstanceId(connector, task))
        self._send_privileged([(key, config_records.encode_config(config))], deadline)
    self._log.read_to_end(deadline)


def _restarts_again(self: PendingChanges) -> list[RestartRequest]:
    return [self._restarts[connector] for connector in sorted(self._restarts)]


def _as_old_as_now(self: Membership, instance: InstanceId) -> int:
    return self.generation


def _thaw_all(self: RunningWork, tasks: object) -> None:
    frozen, self._frozen = self._frozen & self._tasks.keys(), set()
    for instance in frozen:
        host = self._tasks[instance].host
        if host is not None:
            host.thaw()


def _mutant(
    name: str, defect: str, owner: type, method: str, instead: Callable[..., Any]
) -> Mutant:
    def put_back() -> AbstractContextManager[None]:
        return replaced(owner, method, instead)

    return Mutant(name, "workers", defect, put_back)


MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "failed-transfer-steps",
        "A transfer task that had failed went on copying while it stored its final offsets.",
        WorkerTransferTask,
        "_deliver",
        _steps_after_failure,
    ),
    _mutant(
        "revoked-goes-on",
        "What the group revoked was not stopped before the worker joined again.",
        Rebalancing,
        "on_revoked",
        _nothing,
    ),
    _mutant(
        "lost-goes-on",
        "Tasks went on while the worker had no coordinator.",
        Rebalancing,
        "on_lost",
        _nothing,
    ),
    _mutant(
        "evicted-goes-on",
        "Tasks of a worker that the group had put out went on until it had joined again.",
        Membership,
        "on_evicted",
        _nothing,
    ),
    _mutant(
        "thawed-too-late",
        "Frozen tasks went on although another worker may have run them meanwhile.",
        RunningWork,
        "thaw",
        _thaw_all,
    ),
    _mutant(
        "commit-before-configs",
        "The commit of task configs was written before them.",
        KafkaConfigStore,
        "put_task_configs",
        _commit_first,
    ),
    _mutant(
        "half-stopped-stays",
        "A connector whose leader died while it stopped it stayed without tasks.",
        TaskConfigPublisher,
        "compare",
        _nothing,
    ),
    _mutant(
        "restarts-again",
        "A restart request was carried out each time that the worker looked.",
        PendingChanges,
        "take_restarts",
        _restarts_again,
    ),
    _mutant(
        "key-ignored",
        "Requests between workers were served whoever had signed them.",
        SessionKeys,
        "check",
        _nothing,
    ),
    _mutant(
        "late-word-counts",
        "The end of a task that was lost was written with the generation of the next join.",
        Membership,
        "generation_of",
        _as_old_as_now,
    ),
    _mutant(
        "late-deletion-hides",
        "A deletion of a status that came late hid what had run since.",
        HerderLoop,
        "show_again",
        _nothing,
    ),
    _mutant(
        "statuses-stay",
        "Statuses of connectors and tasks that were gone stayed for ever.",
        Leading,
        "forget_deleted",
        _nothing,
    ),
)
