"""What the config topic's news mean for the herder."""

import logging

import pytest

from connect.errors import ConnectError
from connect.runtime.distributed.config_changes import ChangeSet, PendingChanges
from connect.storage.config_records import RestartRequest, SessionKey
from connect.storage.instance_id import InstanceId


class Noted:
    def __init__(self) -> None:
        self.wakes = 0
        self.levels: list[tuple[str, str]] = []
        self.changes = PendingChanges(lambda name: name == "known", self._wake, self._apply)

    def _wake(self) -> None:
        self.wakes += 1

    def _apply(self, namespace: str, level: str) -> None:
        if level == "LOUD":
            raise ConnectError("invalid log level 'LOUD'.")
        self.levels.append((namespace, level))


@pytest.fixture
def noted() -> Noted:
    return Noted()


def test_nothing_is_noted_at_first_and_nothing_is_taken_twice(noted: Noted) -> None:
    assert noted.changes.take() == ChangeSet()
    noted.changes.on_connector_target_state_change("c")
    assert noted.changes.take() == ChangeSet(targets=frozenset({"c"}))
    assert noted.changes.take() == ChangeSet()


def test_a_new_connector_needs_a_rebalance_a_changed_one_only_its_worker(noted: Noted) -> None:
    noted.changes.on_connector_config_update("known")
    assert not noted.changes.rebalance_needed
    assert noted.changes.take() == ChangeSet(connectors=frozenset({"known"}))
    noted.changes.on_connector_config_update("new")
    assert noted.changes.rebalance_needed
    assert noted.changes.take() == ChangeSet(rebalance=True, connectors=frozenset({"new"}))
    assert not noted.changes.rebalance_needed


def test_a_deleted_connector_and_every_commit_of_tasks_need_a_rebalance(noted: Noted) -> None:
    noted.changes.on_connector_config_remove("known")
    assert noted.changes.take() == ChangeSet(rebalance=True)
    noted.changes.on_task_config_update([])
    assert noted.changes.take() == ChangeSet(rebalance=True)
    tasks = [InstanceId("c", 0), InstanceId("c", 1)]
    noted.changes.on_task_config_update(tasks)
    assert noted.changes.take() == ChangeSet(rebalance=True, tasks=frozenset(tasks))


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_restarts_of_a_connector_the_one_that_restarts_most_is_kept(
    noted: Noted, order: int
) -> None:
    requests = [
        RestartRequest("c", only_failed=True, include_tasks=False),
        RestartRequest("c", only_failed=True, include_tasks=True),
        RestartRequest("c", only_failed=False, include_tasks=False),
        RestartRequest("c", only_failed=False, include_tasks=True),
    ]
    other = RestartRequest("b", only_failed=True, include_tasks=False)
    for request in [*requests[::order], other]:
        noted.changes.on_restart_request(request)
    assert noted.changes.take_restarts() == [other, requests[-1]]
    assert noted.changes.take_restarts() == []


def test_a_session_key_that_came_since_is_newer_than_that_of_the_start(noted: Noted) -> None:
    old, new = SessionKey(b"old", "HmacSHA256", 1), SessionKey(b"new", "HmacSHA256", 2)
    noted.changes.begin_with(old)
    assert noted.changes.session_key == old
    noted.changes.on_session_key_update(new)
    noted.changes.begin_with(old)
    assert noted.changes.session_key == new


def test_levels_are_set_at_once_and_one_that_is_none_harms_nobody(
    noted: Noted, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        noted.changes.on_logger_level("a", "DEBUG")
        noted.changes.on_logger_level("b", "LOUD")
    assert noted.levels == [("a", "DEBUG")]
    assert "Cannot change the level of logger b: invalid log level 'LOUD'." in caplog.text


def test_the_herder_is_woken_for_everything_that_it_has_to_do(noted: Noted) -> None:
    changes = noted.changes
    changes.on_connector_config_update("c")
    changes.on_connector_config_remove("c")
    changes.on_task_config_update([])
    changes.on_connector_target_state_change("c")
    changes.on_session_key_update(SessionKey(b"k", "HmacSHA256", 1))
    changes.on_restart_request(RestartRequest("c", only_failed=True, include_tasks=True))
    assert noted.wakes == 6
