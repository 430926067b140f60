"""A flow and its group: whoever leads writes the connectors' configs; a worker that ends by itself
is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connect.clock import Deadline
from connect.config.types import SecretStr
from connect.errors import BrokerUnavailable, ConfigError, ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.connector_status import ConnectorStatus, UnknownConnector
from connect.runtime.errors import BadRequest, NotLeader
from connect.runtime.rest_entities import ConnectorInfo
from connect.runtime.states import State, Status
from connectors.mirror.history.database import read_events
from connectors.mirrormaker.mirror_flow import FlowPlan, FlowState, MirrorFlow
from tests.support.waiting import wait_until
from tests.support.workers.in_memory_herder import InMemoryHerder

TIMEOUT_S = 10.0
SOURCE, HEARTBEAT, CHECKPOINT = (
    f"Mirror{kind}Connector" for kind in ("Source", "Heartbeat", "Checkpoint")
)
PLANNED: Mapping[str, Mapping[str, str]] = {
    name: {"connector.class": name, "topics": "t", "mirror.history.url": "none"}
    for name in (SOURCE, HEARTBEAT)
}
PUT = {name: {**config, "name": name} for name, config in PLANNED.items()}


@dataclass
class FakeHerder(InMemoryHerder):
    """`ends` is what ends it by itself, `refused` what keeps it from joining its group."""

    ends: Exception | None = None
    refused: ConnectError | None = None
    stopped: bool = False
    asked_all: list[str] = field(default_factory=list)

    def check(self) -> None:
        if self.ends is not None:
            raise self.ends

    def await_ready(self, timeout_s: float) -> bool:
        if self.refused is not None:
            raise self.refused
        return True

    def stop(self, deadline: Deadline) -> bool:
        self.stopped = True
        return True

    def status(self, name: str) -> ConnectorStatus:
        if name not in self.configs:
            raise UnknownConnector(name)
        return ConnectorStatus(name, Status(State.RUNNING, "w", 0), ())

    def group_status(self, name: str) -> ConnectorStatus:
        self.asked_all.append(name)
        return self.status(name)


@dataclass
class Workers:
    """Makes a flow's herders; `next` is the one that comes next."""

    next: FakeHerder = field(default_factory=FakeHerder)
    lead: Callable[[], None] = lambda: None
    problem: ConnectError | None = None

    def make(self, on_leading: Callable[[], None]) -> FakeHerder:
        self.lead = on_leading
        return self.next

    def probe(self) -> None:
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def flow(workers: Workers) -> Iterator[MirrorFlow]:
    made = MirrorFlow(FlowPlan("A", "B", PLANNED), workers.make, workers.probe, MetricRegistry())
    yield made
    made.stop(Deadline(TIMEOUT_S))


def begin(flow: MirrorFlow, state: FlowState = FlowState.RUNNING) -> None:
    flow.start()
    wait_until(lambda: flow.state is state, TIMEOUT_S, state.value)


def settles(workers: Workers, configs: Mapping[str, Mapping[str, str]]) -> None:
    wait_until(lambda: workers.next.configs == configs, TIMEOUT_S, f"{configs} are stored")


def test_who_does_not_lead_configures_nothing(flow: MirrorFlow, workers: Workers) -> None:
    begin(flow)
    assert workers.next.configs == {}
    states = {status.name: status.status for status in flow.statuses()}
    assert {state.state for state in states.values()} == {State.UNASSIGNED}
    assert "leader of A->B" in (states[SOURCE].trace or "")


def test_all_workers_are_asked_for_one_connector(flow: MirrorFlow, workers: Workers) -> None:
    before = flow.group_status(SOURCE)
    assert (before.status.state, before.tasks) == (State.UNASSIGNED, ())
    begin(flow)
    workers.lead()
    settles(workers, PUT)
    assert flow.group_status(SOURCE).status.state is State.RUNNING
    assert workers.next.asked_all == [SOURCE]


def test_a_new_leader_writes_the_configs_in_their_order(flow: MirrorFlow, workers: Workers) -> None:
    begin(flow)
    workers.lead()
    settles(workers, PUT)
    assert list(workers.next.configs) == [SOURCE, HEARTBEAT]
    assert [status.status.state for status in flow.statuses()] == [State.RUNNING] * 2


def test_configs_that_are_stored_already_are_not_written_again(
    flow: MirrorFlow, workers: Workers
) -> None:
    workers.next.configs = {SOURCE: dict(PUT[SOURCE]), HEARTBEAT: {"topics": "other"}}
    begin(flow)
    workers.lead()
    settles(workers, PUT)
    put = [call for call in workers.next.calls if call[0] == "put"]
    assert [call[1] for call in put] == [HEARTBEAT]


def test_renewed_configs_are_written_by_who_leads(flow: MirrorFlow, workers: Workers) -> None:
    begin(flow)
    workers.lead()
    settles(workers, PUT)
    slower = {
        SOURCE: {**PLANNED[SOURCE], "mirror.rate.bytes": "1MB"},
        HEARTBEAT: PLANNED[HEARTBEAT],
    }
    flow.renew(FlowPlan("A", "B", slower))
    settles(workers, {name: {**config, "name": name} for name, config in slower.items()})
    put = [call for call in workers.next.calls if call[0] == "put"]
    assert [call[1] for call in put] == [SOURCE, HEARTBEAT, SOURCE]


def test_connectors_that_the_properties_do_not_have_are_deleted(
    flow: MirrorFlow, workers: Workers
) -> None:
    workers.next.configs = {CHECKPOINT: {}, "of the user": {}}
    begin(flow)
    workers.lead()
    settles(workers, {**PUT, "of the user": {}})


def test_a_refused_connector_is_shown_and_does_not_keep_others_from_running(
    flow: MirrorFlow, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = workers.next.put_connector_config

    def refuse(
        name: str, config: Mapping[str, str | None], *, allow_replace: bool
    ) -> tuple[bool, ConnectorInfo]:
        if name == SOURCE:
            raise BadRequest("topics is wrong")
        return put(name, config, allow_replace=allow_replace)

    monkeypatch.setattr(workers.next, "put_connector_config", refuse)
    begin(flow)
    workers.lead()
    settles(workers, {HEARTBEAT: PUT[HEARTBEAT]})
    wait_until(lambda: flow.error, TIMEOUT_S, "an error")
    assert flow.error == f"{SOURCE}: topics is wrong"


def test_who_leads_no_more_leaves_it_to_the_next_leader(flow: MirrorFlow, workers: Workers) -> None:
    workers.next.problems["put_connector_config"] = NotLeader("not any more", None)
    begin(flow)
    workers.lead()
    wait_until(lambda: not flow._to_configure.is_set(), TIMEOUT_S, "the step")
    del workers.next.problems["put_connector_config"]
    assert workers.next.configs == {}
    workers.lead()
    settles(workers, PUT)


def test_what_fails_for_a_moment_is_tried_again(flow: MirrorFlow, workers: Workers) -> None:
    workers.next.problems["put_connector_config"] = BrokerUnavailable("away")
    begin(flow)
    workers.lead()
    wait_until(lambda: flow._loop._backoff.failures, TIMEOUT_S, "a failure")
    del workers.next.problems["put_connector_config"]
    settles(workers, PUT)


def test_a_worker_that_ended_by_itself_is_replaced(flow: MirrorFlow, workers: Workers) -> None:
    begin(flow)
    first, workers.next = workers.next, FakeHerder()
    first.ends = ConnectError("the group refuses us")
    wait_until(lambda: flow.herder is workers.next, TIMEOUT_S, "another worker")
    assert first.stopped
    workers.lead()
    settles(workers, PUT)


def test_a_worker_that_its_group_refuses_is_tried_again_with_longer_waits_and_one_line(
    flow: MirrorFlow, workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    reason = "Joining group A-mm2 failed: GROUP_AUTHORIZATION_FAILED (30); grant Read on it"
    workers.next.refused = ConnectError(reason)
    flow.start()
    wait_until(lambda: flow._loop._backoff.failures >= 2, TIMEOUT_S, "a second try")
    assert {status.status.trace for status in flow.statuses()} == {reason}
    assert caplog.text.count("GROUP_AUTHORIZATION_FAILED") == 1
    assert "works again" not in caplog.text
    workers.next.refused = None
    flow._loop.wake()
    wait_until(lambda: flow.herder is workers.next and not flow.error, TIMEOUT_S, "it joins")


def test_a_config_that_can_never_work_ends_the_flow(flow: MirrorFlow, workers: Workers) -> None:
    workers.problem = ConfigError("no such security protocol")
    begin(flow, FlowState.FAILED)
    assert flow.error == "no such security protocol"
    assert {status.status.state for status in flow.statuses()} == {State.FAILED}


def told(url: str) -> list[tuple[str, str, str]]:
    """The events of the history, oldest first."""
    try:
        return [
            (row["kind"], row["connector"], row["text"]) for row in read_events(SecretStr(url), 9)
        ]
    except ConfigError:
        return []  # No table yet.


def with_history(tmp_path: Path, **more: str) -> tuple[str, dict[str, Mapping[str, str]]]:
    """The URL of a history, and a plan with it."""
    url = f"sqlite:///{tmp_path / 'h.db'}"
    history = {"source.cluster.alias": "A", "target.cluster.alias": "B", "mirror.history.url": url}
    return url, {name: {**config, **history, **more} for name, config in PLANNED.items()}


def test_the_history_tells_what_a_changed_file_changed(
    flow: MirrorFlow, workers: Workers, tmp_path: Path
) -> None:
    url, first = with_history(tmp_path, password="one-secret")
    flow.plan = FlowPlan("A", "B", first)
    workers.next.configs = {CHECKPOINT: {}}
    begin(flow)
    workers.lead()
    settles(workers, {name: {**config, "name": name} for name, config in first.items()})
    wait_until(lambda: told(url), TIMEOUT_S, "an event")
    assert [text for _, _, text in told(url)] == [
        f"The properties file does not enable {CHECKPOINT} any more"
    ], "the first configs are no change"

    second = {
        SOURCE: {**first[SOURCE], "password": "two-secret", "mirror.rate.bytes": "1MB"},
        HEARTBEAT: first[HEARTBEAT],
    }
    flow.renew(FlowPlan("A", "B", second))
    wait_until(lambda: len(told(url)) == 2, TIMEOUT_S, "the event")
    assert told(url)[1] == (
        "changed",
        SOURCE,
        f"The properties file changed {SOURCE}: changed password; added mirror.rate.bytes",
    )


def test_the_history_tells_why_a_flow_or_a_connector_is_refused(
    flow: MirrorFlow, workers: Workers, tmp_path: Path
) -> None:
    url, plan = with_history(tmp_path)
    flow.plan = FlowPlan("A", "B", plan)
    workers.next.problems["put_connector_config"] = BadRequest("topics is wrong")
    begin(flow)
    workers.lead()
    wait_until(lambda: len(told(url)) == 2, TIMEOUT_S, "two events")
    assert set(told(url)) == {
        ("connector.failed", name, f"Connector {name} failed: topics is wrong") for name in plan
    }
    workers.next.ends = ConfigError("no such protocol")
    wait_until(lambda: len(told(url)) == 4, TIMEOUT_S, "two more")
    assert {text for _, _, text in told(url)[2:]} == {
        f"Connector {name} failed: no such protocol" for name in plan
    }
