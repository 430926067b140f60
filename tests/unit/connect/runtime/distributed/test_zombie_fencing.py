"""Rounds of zombie fencing, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from connect.clock import SYSTEM_CLOCK
from connect.runtime.distributed.group_configs import GroupConfigs
from connect.runtime.distributed.zombie_fencing import FencingConflict, ZombieFencing
from connect.runtime.stages import Stages
from connect.storage.memory_status_store import MemoryConfigStore


class Leader:
    """A leader's fencing over a store of its own. `fenced`: the requests to the brokers."""

    def __init__(self) -> None:
        self.store = MemoryConfigStore()
        self.store.put_connector_config("c", {"name": "c"})
        self.configs = GroupConfigs(self.store, Stages(SYSTEM_CLOCK), 1.0, SYSTEM_CLOCK)
        self.fenced: list[Future[None]] = []
        self.fencing = ZombieFencing(
            self.configs,
            self.store.put_task_count_record,
            lambda _, command: command(),
            self._fence_out,
            dict,
            lambda _: True,
        )

    def configure(self, tasks: int) -> None:
        self.store.put_task_configs("c", [{} for _ in range(tasks)])
        self.fencing.give_up({"c"})

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
    assert leader.store.snapshot().task_count_record("c") == 3
    assert leader.fencing.request("c").done()
    assert len(leader.fenced) == 1


def test_a_fence_request_that_is_replayed_does_nothing(leader: Leader) -> None:
    """As in Java, a recorded request stays valid until the key is replaced; only new task configs
    give it something to do."""
    leader.fencing.request("c")
    leader.fenced[0].set_result(None)
    for _ in range(3):
        assert leader.fencing.request("c").result(0) is None
    assert len(leader.fenced) == 1
    assert leader.store.snapshot().task_count_record("c") == 3
    leader.configure(4)
    leader.fencing.request("c")
    assert len(leader.fenced) == 2


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
    assert leader.store.snapshot().task_count_record("c") == 2
