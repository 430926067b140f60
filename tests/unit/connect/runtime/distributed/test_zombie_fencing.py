"""Rounds of zombie fencing, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

import pytest

from connect.runtime.distributed.zombie_fencing import FencingConflict, ZombieFencing
from connect.storage.config_state import ClusterConfigState
from connect.storage.memory_status_store import MemoryConfigStore


class Leader:
    """The part of the leader's herder that fencing needs. `fenced`: what the brokers were asked."""

    def __init__(self) -> None:
        self.store = MemoryConfigStore()
        self.store.put_connector_config("c", {"name": "c"})
        self.fenced: list[Future[None]] = []
        self.fencing = ZombieFencing(self, self.store, self._fence_out, dict, lambda _: True)

    @property
    def configs(self) -> ClusterConfigState:
        return self.store.snapshot()

    def configure(self, tasks: int) -> None:
        self.store.put_task_configs("c", [{} for _ in range(tasks)])
        self.fencing.give_up({"c"})

    def refresh(self) -> bool:
        return True

    def write_as_leader(self, write: Callable[[], None]) -> None:
        write()

    def post(self, delay_s: float, command: Callable[[], None]) -> None:
        command()

    def _fence_out(self, connector: str, tasks: int, config: Mapping[str, str]) -> Future[None]:
        self.fenced.append(Future())
        return self.fenced[-1]


@pytest.fixture
def leader() -> Leader:
    made = Leader()
    made.configure(2)
    made.store.put_task_count_record("c", 2)
    made.configure(3)
    return made


def test_requests_share_a_round(leader: Leader) -> None:
    first, second = leader.fencing.request("c"), leader.fencing.request("c")
    assert first is second
    leader.fenced[0].set_result(None)
    assert first.result(0) is None
    assert leader.configs.task_count_record("c") == 3
    assert leader.fencing.request("c").done()
    assert len(leader.fenced) == 1


def test_no_task_begins_while_brokers_still_fence_for_a_round_that_was_given_up(
    leader: Leader,
) -> None:
    """They would fence it out."""
    given_up = leader.fencing.request("c")
    leader.configure(2)
    with pytest.raises(FencingConflict):
        given_up.result(0)
    next_round = leader.fencing.request("c")
    assert len(leader.fenced) == 1
    assert leader.fencing.request("c") is next_round
    leader.fenced[0].set_result(None)
    assert len(leader.fenced) == 2
    assert not next_round.done()
    leader.fenced[1].set_result(None)
    assert next_round.result(0) is None
    assert leader.configs.task_count_record("c") == 2
