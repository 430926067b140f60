"""A forwarded change is in the flow's history once, with who asked: workers over real HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.runtime.errors import NotLeader
from connect.runtime.states import TargetState
from tests.support.rest import call
from tests.support.ui.dashboard_group import DashboardHerder, Flow, partitions
from tests.support.waiting import wait_until
from tests.unit.api.started import StartServer

STOP = "/connectors/us-eu-source/stop"
RECORDED = "x-connect-change-recorded"
SOON_S = 60.0


@dataclass
class Group:
    """Workers of one group, whose flow us->eu has a history."""

    start: StartServer
    history: Path

    def worker(self, leader: str | None = None) -> str:
        """Start one. `leader`: the worker to which it forwards; None: it leads."""
        herder = DashboardHerder()
        Flow("us", "eu", partitions({"orders": 3})).add_to(herder, self.history)
        if leader is not None:
            herder.problems["stop_connector"] = NotLeader("Only the leader can do this", leader)
        return self.start(herder)

    def events(self, url: str) -> list[str]:
        """Those that were written so far; none until the history has its tables."""
        answer = call(url, "GET", "/mirrors/us->eu/events")
        found = answer.json()["events"] if answer.status == 200 else ()
        return [each["text"] for each in found]

    def wait_events(self, url: str, texts: Sequence[str]) -> None:
        wait_until(
            lambda: self.history.exists() and len(self.events(url)) >= len(texts),
            SOON_S,
            f"the events {texts}",
        )
        assert self.events(url) == list(texts)


@pytest.fixture
def group(start_server: StartServer, tmp_path: Path) -> Group:
    return Group(start_server, tmp_path / "h.db")


@pytest.mark.parametrize("query", ["?forward=true", "?forward=false", "?forward", "?forward="])
def test_a_client_that_writes_forward_is_in_the_history(group: Group, query: str) -> None:
    url = group.worker()

    assert call(url, "PUT", f"{STOP}{query}").status == 204
    group.wait_events(url, [f"127.0.0.1: PUT {STOP}"])


def test_the_worker_that_makes_a_change_writes_who_asked_whom(group: Group) -> None:
    leader = group.worker()
    follower = group.worker(leader)

    answer = call(follower, "PUT", STOP)
    assert (answer.status, RECORDED in answer.headers) == (204, False)
    forwarded = f"127.0.0.1, forwarded by 127.0.0.1: PUT {STOP}"
    group.wait_events(leader, [forwarded])
    # What came later is first, and nothing of the former change came after it.
    assert call(leader, "PUT", STOP).status == 204
    group.wait_events(leader, [f"127.0.0.1: PUT {STOP}", forwarded])


def test_two_hops_are_one_change(group: Group) -> None:
    leader = group.worker()
    first = group.worker(group.worker(leader))

    assert call(first, "PUT", STOP).status == 204
    forwarded = f"127.0.0.1, forwarded by 127.0.0.1, forwarded by 127.0.0.1: PUT {STOP}"
    group.wait_events(leader, [forwarded])
    assert call(leader, "PUT", STOP).status == 204
    group.wait_events(leader, [f"127.0.0.1: PUT {STOP}", forwarded])


def test_a_leader_without_a_history_leaves_it_to_who_forwards(
    group: Group, start_server: StartServer
) -> None:
    """As one of Java."""
    other = DashboardHerder()
    other.configs["us-eu-source"] = {"connector.class": "Table"}
    follower = group.worker(start_server(other))

    assert call(follower, "PUT", STOP).status == 204
    assert other.targets["us-eu-source"] is TargetState.STOPPED
    group.wait_events(follower, [f"127.0.0.1: PUT {STOP}"])


def test_whoever_deletes_a_source_connector_and_creates_it_again_is_in_its_flow_s_history(
    group: Group,
) -> None:
    url = group.worker()
    path = "/connectors/us-eu-source"
    config = call(url, "GET", f"{path}/config").json()

    assert call(url, "DELETE", path).status == 204
    assert call(url, "PUT", f"{path}/config", config).status == 201
    texts = [f"127.0.0.1: PUT {path}/config", f"127.0.0.1: DELETE {path}"]
    group.wait_events(url, texts)
    assert call(url, "DELETE", path).status == 204
    assert (
        call(url, "POST", "/connectors", {"name": config["name"], "config": config}).status == 201
    )
    again = ["127.0.0.1: POST /connectors (us-eu-source)", f"127.0.0.1: DELETE {path}"]
    group.wait_events(url, [*again, *texts])


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("?forward=true", "root at 10.0.0.1?forged, forwarded by 127.0.0.1"),
        ("", "127.0.0.1"),
    ],
    ids=["forwarded", "direct"],
)
def test_whom_a_client_names_does_not_hide_the_client(group: Group, query: str, text: str) -> None:
    url = group.worker()
    headers = {"X-Connect-Change-Sender": "root at 10.0.0.1%0Aforged"}

    assert call(url, "PUT", f"{STOP}{query}", headers=headers).status == 204
    group.wait_events(url, [f"{text}: PUT {STOP}"])


def test_what_was_refused_is_no_change(group: Group) -> None:
    leader = group.worker("")
    follower = group.worker(leader)

    assert call(follower, "PUT", STOP).error[0] == 409
    assert not group.history.exists()
