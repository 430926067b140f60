"""What a worker does as the leader, and when it cannot read what leaders write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.errors import BrokerError, ConnectError, DeadlineExceeded
from connect.runtime.distributed import herder
from connect.runtime.states import State, TargetState
from connect.storage.config_store import PrivilegedWriteFailed
from tests.support.workers.driven_herder import Rig, herder_rig
from tests.support.workers.driven_member import Plan
from tests.unit.connect.runtime.distributed.steered import Steered, Told, put, running

R, S = State.RUNNING, State.STOPPED


def test_a_leader_that_was_fenced_out_tells_so_and_claims_the_right_to_write_anew(
    rig: Rig,
) -> None:
    claims = rig.store.claims
    rig.store.refusals.append(PrivilegedWriteFailed("another producer writes"))
    with pytest.raises(ConnectError, match="can be safely retried"):
        put(rig)
    running(rig)
    assert rig.store.claims >= claims + 1


def refuse_to_lead(rig: Rig, times: int) -> str:
    """Let the leader's writes fail, and its next claims so many times. Returns why, which its
    health then tells."""
    why = "grant Write and Describe on the transactional id connect-cluster-g"
    rig.store.unclaimable.extend([BrokerError(why, 53)] * times)
    rig.store.refusals.append(PrivilegedWriteFailed("another producer writes"))
    with pytest.raises(ConnectError, match="can be safely retried"):
        put(rig)
    rig.herder.post(lambda: None)  # it need not wait for the next request
    rig.until(lambda: why in str(rig.herder.health().trouble), "the herder says what is wrong")
    return why


def test_a_leader_that_may_not_write_says_why_until_it_may(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    why = refuse_to_lead(rig, 3)
    rig.until(lambda: why in str(rig.herder.health().stage), "and what it waits for")
    running(rig)
    assert rig.herder.health().trouble is None
    told = [record.message for record in caplog.records if why in record.message]
    assert len(told) == 1, "the same is told once"


def test_a_request_to_a_worker_that_cannot_lead_times_out_with_the_reason(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java answers so, too, with 500 after 90 s, but without the reason."""
    monkeypatch.setattr(herder, "REQUEST_TIMEOUT_S", 0.5)
    why = refuse_to_lead(rig, 1_000)
    with pytest.raises(DeadlineExceeded, match=f"^Request timed out\\. The .*{why}"):
        put(rig)
    rig.store.unclaimable.clear()


def test_the_leader_removes_the_tasks_of_a_connector_that_another_worker_stops(rig: Rig) -> None:
    """A leader that was replaced while it stopped the connector writes the target state late."""
    running(rig)
    rig.store.put_target_state("c", TargetState.STOPPED)
    rig.becomes("c", S)
    rig.herder.resume_connector("c")
    rig.becomes("c", R, R)


def test_it_removes_them_later_if_it_cannot_write_now(rig: Rig) -> None:
    running(rig)
    rig.store.refusals.append(PrivilegedWriteFailed("another producer writes"))
    rig.store.put_target_state("c", TargetState.STOPPED)
    rig.until(lambda: not rig.store.refusals, "an attempt")
    rig.member.turns(1)
    rig.becomes("c", S)


def test_a_worker_that_does_not_lead_leaves_them_to_the_leader(rig: Rig) -> None:
    running(rig)
    rig.member.otherwise = Plan([("c", -1), ("c", 0)])
    rig.member.rebalance()
    rig.until(lambda: not rig.herder.is_leader, "another leader")
    rig.store.put_target_state("c", TargetState.STOPPED)
    rig.until(lambda: rig.state("c") is S, "the connector to stop")
    rig.member.turns(2)
    assert rig.store.snapshot().task_count("c") == 1


@pytest.fixture
def waited_for() -> Iterator[Rig]:
    """A worker whose group waits for 2 s before it gives its work to others."""
    Steered.reset()
    with herder_rig(
        Steered,
        scheduled_rebalance_max_delay_ms="2000",
        worker_sync_timeout_ms="100",
        task_shutdown_graceful_timeout_ms="500",
    ) as opened:
        yield opened.start().await_ready()


def test_a_worker_that_cannot_read_the_configs_leaves_the_group_until_it_can(
    waited_for: Rig,
) -> None:
    rig = waited_for
    running(rig)
    Told.take()
    rig.store.unread.extend([DeadlineExceeded("slow")] * 3)
    rig.member.plan(Plan([("d", -1)], offset=10_000))
    rig.until(lambda: not rig.store.unread, "reading to work again")
    left = "leave: taking too long to read the log"
    rig.until(lambda: rig.member.events.count(left) == 3, "leaving three times")
    rig.becomes("c", R, R)
    assert Told.take() == []


def test_in_the_end_it_gives_up_what_it_runs(waited_for: Rig) -> None:
    rig = waited_for
    running(rig)
    Told.take()
    rig.store.unread.extend([DeadlineExceeded("slow")] * 6)
    rig.member.plan(Plan([("d", -1)], offset=10_000))
    rig.until(lambda: Told.seen("started c-0 with 0"), "the work anew")
    assert Told.take()[:2] == ["stopped c-0", "stopped c"]
    rig.becomes("c", R, R)


def test_it_stops_its_work_before_it_leaves_where_others_get_it_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the work runs twice, and a task stores offsets after its successor has."""
    running(rig)
    Told.take()
    monkeypatch.setattr(rig.member, "leave", lambda _: Told.note("left"))
    rig.store.unread.append(DeadlineExceeded("slow"))
    rig.member.plan(Plan([("c", -1), ("c", 0)], offset=10_000))
    rig.until(lambda: Told.seen("started c-0 with 0"), "the work anew")
    assert Told.take()[:3] == ["stopped c-0", "stopped c", "left"]


def test_a_config_topic_that_can_never_be_read_again_ends_the_worker(rig: Rig) -> None:
    running(rig)
    rig.store.unread.append(ConnectError("Reading topic configs failed"))
    rig.member.plan(Plan(offset=10_000))
    with pytest.raises(ConnectError, match="Reading topic configs failed"):
        rig.until(lambda: False, "the end")


def test_the_leader_writes_a_session_key_and_a_new_one_when_it_is_too_old() -> None:
    Steered.reset()
    with herder_rig(Steered, inter_worker_key_ttl_ms="200") as rig:
        rig.start().await_ready()
        first = rig.store.snapshot().session_key
        assert first is not None
        assert len(first.key) == 32

        def is_newer() -> bool:
            key = rig.store.snapshot().session_key
            return key is not None and key.created_ms >= first.created_ms + 200

        rig.until(is_newer, "another key")
