"""Task configs on their way from a connector to the config topic."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest

from connect.clients.rest_client import RestAnswer
from connect.errors import ConnectError
from connect.protocol.signatures import sign
from connect.runtime.states import State
from connect.runtime.work.task_config_publisher import task_configs_changed
from connect.storage.memory_status_store import MemoryConfigStore
from tests.support.workers.driven_herder import Rig, herder_rig
from tests.support.workers.driven_member import Plan
from tests.unit.connect.runtime.distributed.steered import Steered, Told, config

R, F = State.RUNNING, State.FAILED
TASK_CLASS = f"{Steered.__module__}.SteeredTask"
DONE = RestAnswer(204, b"")


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A worker that runs the connector c; another leads."""
    Steered.reset()
    with herder_rig(Steered) as opened:
        # The key that the leader wrote before we came.
        opened.start().await_ready()
        opened.member.otherwise = Plan()
        opened.member.rebalance()
        opened.until(lambda: not opened.herder.is_leader, "another leader")
        yield opened
        Told.release.set()


def own(rig: Rig) -> None:
    """c is created by the leader, and assigned to this worker."""
    rig.member.hold()
    rig.store.put_connector_config("c", config(name="c"))
    rig.member.plan(Plan([("c", -1)]))
    rig.member.go_on()


def asked(rig: Rig, count: int) -> list[list[dict[str, str]]]:
    """What the leader was asked to commit, once it was asked so often."""
    rig.until(lambda: len(rig.leader.asked) >= count, f"{count} requests")
    return [json.loads(body or b"") for _, body, _, _ in rig.leader.asked]


def test_a_follower_has_the_leader_commit_its_task_configs(rig: Rig) -> None:
    own(rig)
    assert asked(rig, 1) == [[{"n": "0", "task.class": TASK_CLASS}]]
    request, body, headers, answer = rig.leader.asked[0]
    assert request == "POST http://other:8083/connectors/c/tasks"
    key = rig.store.snapshot().session_key
    assert key is not None
    assert headers == {
        "X-Connect-Authorization": sign(key.key, "HmacSHA256", body or b""),
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    answer.set_result(DONE)


def test_who_cannot_ask_the_leader_commits_itself_where_that_is_allowed(rig: Rig) -> None:
    rig.herder._loop.commits.publishes_itself = True
    own(rig)
    rig.until(lambda: rig.store.snapshot().task_count("c") == 1, "its own commit")
    assert rig.leader.asked == []


def test_nothing_is_asked_where_the_committed_configs_are_right(rig: Rig) -> None:
    rig.member.hold()
    rig.store.put_connector_config("c", config(name="c"))
    rig.store.put_task_configs("c", [{"n": "0", "task.class": TASK_CLASS}])
    rig.member.plan(Plan([("c", -1), ("c", 0)]))
    rig.member.go_on()
    rig.becomes("c", R, R)
    Steered.last.context.request_task_reconfiguration()
    rig.member.turns(3)
    assert rig.leader.asked == []


def test_a_connector_whose_tasks_a_leader_left_half_changed_is_asked_again(rig: Rig) -> None:
    own(rig)
    committed = asked(rig, 1)[0]
    rig.store.put_task_configs("c", committed)
    rig.leader.asked[0][-1].set_result(DONE)
    rig.member.plan(Plan([("c", 0)]))
    rig.becomes("c", R, R)
    # A leader that died in a stop has taken the tasks away, and not said that c is stopped.
    rig.store.put_task_configs("c", [])
    assert asked(rig, 2)[1] == committed


def test_of_what_changes_while_the_leader_writes_only_the_newest_follows(rig: Rig) -> None:
    own(rig)
    asked(rig, 1)
    for number in ("1", "2", "3"):
        Steered.regroup({"n": number})
    rig.member.turns(3)
    assert len(rig.leader.asked) == 1
    rig.leader.asked[0][3].set_result(DONE)
    assert [each[0]["n"] for each in asked(rig, 2)] == ["0", "3"]


def test_a_leader_that_refuses_is_asked_again_with_growing_waits(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.leader.answers.extend([RestAnswer(500, b'{"error_code":500,"message":"no way"}')] * 2)
    own(rig)
    asked(rig, 3)
    assert re.search(r"retrying in 0\.[23]\d s", caplog.text)
    assert re.search(r"retrying in 0\.[456]\d s", caplog.text)
    assert "the leader answered 500: no way" in caplog.text


def test_while_one_retry_waits_no_others_are_added(
    rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connect.runtime.work.task_config_publisher._BACKOFF_S", 30.0)
    rig.leader.answers.extend([RestAnswer(500, b"x")] * 3)
    own(rig)
    asked(rig, 1)
    rig.until(lambda: "retrying" in caplog.text, "the failure")
    for count in (2, 3):
        Steered.last.context.request_task_reconfiguration()
        # What the connector asks for itself comes at once.
        asked(rig, count)
    rig.member.turns(3)
    assert caplog.text.count("retrying in") == 1


def test_after_a_success_waits_begin_anew(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    refusal = RestAnswer(409, b'{"error_code":409,"message":"rebalance"}')
    rig.leader.answers.extend([refusal, DONE, refusal, DONE])
    own(rig)
    asked(rig, 2)
    rig.member.turns(2)
    Steered.regroup({"n": "1"})
    asked(rig, 4)
    assert len(re.findall(r"retrying in 0\.[23]\d s", caplog.text)) == 2


def test_a_key_that_may_just_be_unread_is_no_error(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.leader.answers.append(RestAnswer(403, b'{"error_code":403,"message":"invalid"}'))
    with caplog.at_level(logging.INFO):
        own(rig)
        asked(rig, 2)
    (record,) = [each for each in caplog.records if "retrying in" in each.message]
    assert record.levelno == logging.INFO


def test_nobody_is_asked_for_a_connector_that_has_gone(rig: Rig) -> None:
    rig.leader.answers.append(RestAnswer(500, b"x"))
    own(rig)
    asked(rig, 1)
    rig.member.plan(Plan(revoked=[("c", -1)]), Plan())
    rig.until(lambda: rig.state("c") is State.UNASSIGNED, "the revocation")
    rig.herder.post(lambda: None)
    rig.member.turns(2)
    assert len(rig.leader.asked) == 1


def test_a_connector_that_gives_no_configs_is_asked_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    Steered.failures.extend([ConnectError("source away"), ValueError("odd")])
    own(rig)
    asked(rig, 1)
    assert re.search(r"retrying in 0\.[23]\d s: source away", caplog.text)
    assert re.search(r"retrying in 0\.[456]\d s: odd", caplog.text)


def test_a_connector_whose_tasks_are_not_committed_says_so_until_they_are(rig: Rig) -> None:
    Steered.failures.extend([ConnectError("source away")] * 3)
    own(rig)

    def trace() -> str:
        status = rig.status("c")
        return "" if status is None else status.trace or ""

    rig.until(lambda: "its tasks are not running: source away" in trace(), "the reason")
    assert rig.state("c") is R
    asked(rig, 1)[0]
    rig.leader.asked[0][3].set_result(DONE)
    rig.until(lambda: not trace(), "no reason any more")


def test_too_many_tasks_fail_the_connector_for_good(rig: Rig) -> None:
    Steered.tasks = [{"n": str(number)} for number in range(10)]
    own(rig)
    rig.until(lambda: rig.state("c") is F, "the failure")
    status = rig.status("c")
    assert status is not None
    assert "generated 10 tasks, which is greater than 9" in (status.trace or "")
    rig.member.turns(3)
    assert rig.leader.asked == []


# When task configs count as changed.


def committed() -> MemoryConfigStore:
    store = MemoryConfigStore(transform=lambda _, raw: {**raw, "resolved": "yes"})
    store.put_connector_config("c", {"a": "1"})
    store.put_task_configs("c", [{"n": "0"}, {"n": "1"}])
    return store


RESOLVED = {"a": "1", "resolved": "yes"}


@pytest.mark.parametrize(
    ("tasks", "connector", "changed"),
    [
        ([{"n": "0"}, {"n": "1"}], RESOLVED, False),
        ([{"n": "0"}], RESOLVED, True),
        ([{"n": "0"}, {"n": "1"}, {"n": "2"}], RESOLVED, True),
        ([{"n": "1"}, {"n": "0"}], RESOLVED, True),
        ([{"n": "0"}, {"n": "1", "m": "1"}], RESOLVED, True),
        ([{"n": "0"}, {"n": "1"}], {**RESOLVED, "a": "2"}, True),
        ([{"n": "0"}, {"n": "1"}], {"a": "1"}, True),
    ],
)
def test_what_is_a_change(
    tasks: list[dict[str, str]], connector: dict[str, str], changed: bool
) -> None:
    assert task_configs_changed("c", committed().snapshot(), tasks, connector) is changed


def test_a_connector_without_committed_tasks_has_changed_even_if_it_has_none() -> None:
    store = MemoryConfigStore()
    store.put_connector_config("c", {"a": "1"})
    assert task_configs_changed("c", store.snapshot(), [], {"a": "1"})
    store.put_task_configs("c", [])
    assert not task_configs_changed("c", store.snapshot(), [], {"a": "1"})
