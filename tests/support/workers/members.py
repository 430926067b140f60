"""Members of Connect groups for tests: each polls on a thread of its own and notes what happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from connect.clients.groups.member import GroupMember, GroupTimeouts
from connect.errors import DeadlineExceeded
from connect.protocol.membership import (
    PROTOCOL_VERSIONS,
    Assignment,
    ConnectorTask,
    WorkerState,
    decode_assignment,
    encode_metadata,
    merge_assignment,
    offered_protocols,
)
from connect.runtime.distributed.assignment import ConfigView, GroupLeader
from tests.support.waiting import wait_until

__all__ = ["QUICK", "TestMember"]

QUICK = GroupTimeouts(session_ms=6_000, rebalance_ms=20_000, heartbeat_ms=500)
"""The shortest session that brokers take by default."""

_POLL_S = 1.0


class TestMember:
    """A worker without work: it joins, assigns when it leads, and believes what it is assigned."""

    __test__ = False

    def __init__(
        self,
        servers: str,
        group: str,
        name: str,
        config: Callable[[], ConfigView],
        *,
        connect_protocol: str = "sessioned",
        timeouts: GroupTimeouts = QUICK,
        max_delay_ms: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.url = f"http://{name}:8083/"
        self.events: list[str] = []
        self.assignment: Assignment | None = None
        self.protocol = ""
        self.failure: BaseException | None = None
        self.threads: set[str] = set()
        self.hold = threading.Event()
        self.hold.set()
        self._config = config
        self._offers = offered_protocols(connect_protocol)
        self._leader = GroupLeader(max_delay_ms)
        self._completed = -1
        self._stop = threading.Event()
        self.member = GroupMember(
            {"bootstrap.servers": servers, "client.id": name, **(properties or {})},
            group,
            timeouts,
            self,
            doing=lambda: f"{name} is held up",
        )
        self._thread = threading.Thread(target=self._work, name=f"owner-{name}", daemon=True)

    def start(self) -> TestMember:
        self._thread.start()
        return self

    @property
    def running(self) -> tuple[ConnectorTask, ...]:
        """What this worker would run now."""
        assignment = self.assignment
        return () if assignment is None else assignment.assigned

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        def check() -> object:
            if self.failure is not None:
                raise AssertionError(f"{self.name} failed") from self.failure
            return condition()

        wait_until(check, timeout_s, f"{self.name}: {what}")

    def happens(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Whether it comes true in that time."""
        try:
            wait_until(condition, within_s, self.name)
        except DeadlineExceeded:
            return False
        return True

    def stop(self) -> None:
        """Leave the group and end both threads."""
        self.end()
        self.member.close()

    def die(self) -> None:
        """Close all connections without leaving the group."""
        self.end()
        self.member._network.close(5.0)

    def end(self) -> None:
        """End the owner's thread only: the member is not polled any more."""
        self._stop.set()
        self.hold.set()
        self.member.wakeup()
        if self._thread.is_alive():
            self._thread.join(30)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                self.member.poll(_POLL_S)
                self._follow_up()
                self.hold.wait(60)
        except BaseException as error:
            self.failure = error
            raise

    def _follow_up(self) -> None:
        """Rejoin where a worker has to: after revocations, and until all have the same configs."""
        assignment = self.assignment
        if assignment is None:
            return
        offset = self._config().offset
        if assignment.revoked or assignment.failed or assignment.config_offset != offset:
            self.assignment = replace(assignment, revoked=(), error=0, config_offset=offset)
            self.member.request_rejoin("revocations, or other configs")

    # The callbacks.

    def metadata(self) -> list[tuple[str, bytes]]:
        self._note("metadata")
        state = WorkerState(self.url, self._config().offset, self.assignment)
        return [(name, encode_metadata(state, PROTOCOL_VERSIONS[name])) for name in self._offers]

    def perform_assignment(
        self, leader_id: str, protocol: str, members: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        self._note(f"lead {len(members)}")
        led = self._leader.lead(
            leader_id,
            protocol,
            members,
            self._config(),
            self._config,
            now_ms=0,
            last_completed_generation=self._completed,
            current_generation=self.member.generation,
        )
        return led.assignments

    def on_join_prepare(self) -> None:
        self._note("prepare")

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self._note(f"generation {generation}")
        self._completed = generation
        self.protocol = protocol
        self.assignment = merge_assignment(self.assignment, decode_assignment(assignment))

    def on_coordinator_lost(self) -> None:
        self._note("lost")
        self.assignment = None

    def on_evicted(self) -> None:
        self._note("evicted")

    def _note(self, event: str) -> None:
        self.threads.add(threading.current_thread().name)
        self.events.append(event)
