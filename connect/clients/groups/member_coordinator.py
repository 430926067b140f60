"""The network side of a Connect group member: kafka-python's coordinator on its own thread.

kafka-python finds the coordinator, sends heartbeats and handles responses. This module adds the
needs of Connect: callbacks run on the owner's thread while heartbeats go on, a dead connection is
noticed within the session timeout, and a rejoin request during a rebalance is never lost.

Everything runs on the network thread. Only `connect.clients.groups.member` uses it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafka.coordinator.base import BaseCoordinator
from kafka.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaError,
    MemberIdRequiredError,
    RebalanceInProgressError,
)
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from kafka.structs import MemberState

from connect.clients.config.settings import WireSettings
from connect.clients.groups.member_network import GroupNetwork, GroupTimeouts
from connect.clients.groups.owner_calls import OwnerCalls
from connect.metrics.coordinator_metrics import CoordinatorMetrics
from connect.protocol.membership import PROTOCOL_TYPE

__all__ = ["GroupCallbacks", "GroupCoordinator", "lost_at"]

log = logging.getLogger(__name__)

# The newest versions whose new fields (reasons, skipped assignments) can be ignored.
_JOIN_VERSION = 7
_SYNC_VERSION = 5
# As in Java's clients: extra time for a JoinGroup response, which the coordinator delays.
_JOIN_GRACE_MS = 5_000
_REFUSAL_S = 1.0
_LEFT_ON_POLL_TIMEOUT = "worker poll timeout has expired."


class GroupCallbacks(Protocol):
    """Callbacks of a member when the group changes.

    All run on the owner's thread, inside `GroupMember.poll` or `ensure_active`, while heartbeats go
    on. Their errors are raised there.
    """

    def metadata(self) -> list[tuple[str, bytes]]:
        """Return the protocols to offer, most preferred first, each with this worker's metadata."""

    def perform_assignment(
        self, leader_id: str, protocol: str, members: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        """Compute the assignments by member id from the members' metadata. Called on the leader."""

    def on_join_prepare(self) -> None:
        """Prepare to rejoin. Called once for each rebalance."""

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        """Accept the assignment after the member joined the group."""

    def on_coordinator_lost(self) -> None:
        """Stop the assigned work, because the coordinator is lost and other workers may take it
        over.

        The member rejoins as soon as it can.
        """

    def on_evicted(self) -> None:
        """Stop the assigned work, because the coordinator removed this member and others may have
        its work.

        The member rejoins at once and then gets a new assignment.
        """


class GroupCoordinator(BaseCoordinator):  # type: ignore[misc]
    """kafka-python's coordinator for a member of protocol type `connect`. Runs on the network
    thread.
    """

    def __init__(
        self,
        network: GroupNetwork,
        calls: OwnerCalls,
        callbacks: GroupCallbacks,
        group_id: str,
        timeouts: GroupTimeouts,
        settings: WireSettings,
        metrics: CoordinatorMetrics,
        doing: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`doing`: returns a sentence that says what its owner is busy with."""
        self._doing = doing
        self._metrics = metrics
        self._calls = calls
        self._callbacks = callbacks
        self._timeouts = timeouts
        self._offers: list[tuple[str, bytes]] = []
        self._completing = False
        self._rejoin_requested = False
        self._next_lookup = 0.0
        self.joins = 0
        """The number of completed rebalances, including their callbacks."""
        self.has_assignment = False
        """Whether the member has an assignment that it would lose with the coordinator."""
        self.evicted = False
        """Whether the coordinator removed this member and the owner must be told."""
        self.resting = True
        """Prevents joins while true."""
        self.lost_at: float | None = None
        """The `time.monotonic` at which the missing coordinator counts as lost; None while there is
        one. This is a heartbeat interval after its loss, but at the latest the end of the session.
        """
        super().__init__(
            network.client,
            group_id=group_id,
            session_timeout_ms=timeouts.session_ms,
            max_poll_interval_ms=timeouts.rebalance_ms,
            heartbeat_interval_ms=timeouts.heartbeat_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            request_timeout_ms=settings.request_timeout_ms,
        )
        self.heartbeat.received_heartbeat = self._beat_was_heard

    @property
    def member_id(self) -> str:
        return str(self._generation.member_id)

    @property
    def generation_id(self) -> int:
        return int(self._generation.generation_id)

    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return self._offers

    def _perform_assignment(self, leader_id: str, protocol: str, members: Any) -> Any:
        raise AssertionError("the owner assigns, see _do_join_and_sync_async")

    # Deciding when to join.

    def need_rejoin(self) -> bool:
        return not self.resting and (self._rejoin_requested or bool(self.rejoin_needed))

    def request_rejoin(self, reason: str | None = None) -> None:
        if reason is not None:
            log.info("Group %s: rejoining: %s", self.group_id, reason)
            # A request that comes after our metadata was sent stays set, because that join was too
            # early for it.
            self._rejoin_requested = True
        super().request_rejoin()
        self._calls.wake()

    def reset_generation(self, *arguments: Any, **options: Any) -> None:
        super().reset_generation(*arguments, **options)
        self.evicted = self.has_assignment and not self.member_id
        self._calls.wake()

    # Joining. Callbacks run on the owner's thread.

    async def stay_active_async(self) -> None:
        """Join, however long it takes. Raises fatal errors."""
        while True:
            try:
                await self.ensure_active_group_async()
            except KafkaError as error:
                if not error.retriable:
                    raise
                log.debug("Group %s: joining failed: %s", self.group_id, error)
                await self._net.sleep(self.config["retry_backoff_ms"] / 1000)
            else:
                return

    async def _on_join_prepare_async(self, *_arguments: Any, **_options: Any) -> None:
        await self._calls.run(self._callbacks.on_join_prepare)

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.has_assignment = True
        self._metrics.rebalance_completed()
        await self._calls.run(
            self._callbacks.on_join_complete, generation, member_id, protocol, bytes(assignment)
        )
        self.joins += 1

    async def _do_join_and_sync_async(self) -> bytes:
        self._rejoin_requested = False
        self._notice_end_of_session()
        self._metrics.rebalance_begun()
        self._offers = await self._calls.run(self._callbacks.metadata)
        try:
            joined = await self._join()
            assignments: Mapping[str, bytes] = {}
            if joined.leader == joined.member_id:
                # Callbacks may take long, and heartbeats must go on meanwhile.
                self._completing = True
                self._enable_heartbeat()
                members = {member.member_id: bytes(member.metadata) for member in joined.members}
                assignments = await self._calls.run(
                    self._callbacks.perform_assignment,
                    joined.leader,
                    joined.protocol_name,
                    members,
                )
            return await self._sync(assignments)
        except MemberIdRequiredError:
            # Every new member gets this response first.
            raise
        except KafkaError:
            self._metrics.rebalance_failed()
            raise
        finally:
            self._completing = False

    def _notice_end_of_session(self) -> None:
        """Detect an expired session while joining, when no heartbeats do.

        A coordinator that has our JoinGroup keeps the member. It does not if JoinGroup is late, for
        example after the process was suspended.
        """
        late = time.monotonic() - self._last_heard > self._timeouts.session_ms / 1000
        if late and self.has_assignment:
            self.evicted = True
            self._calls.wake()

    async def _join(self) -> Any:
        if self.coordinator_unknown():
            raise CoordinatorNotAvailableError(self.coordinator_id)
        with self._lock:
            self.state = MemberState.REBALANCING
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._timeouts.session_ms,
            rebalance_timeout_ms=self._timeouts.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._offers,
            max_version=_JOIN_VERSION,
        )
        timeout_ms = max(
            self.config["request_timeout_ms"], self._timeouts.rebalance_ms + _JOIN_GRACE_MS
        )
        sent = time.monotonic()
        # A broker that is not the coordinator refuses at once; one that delays the response has
        # accepted it.
        taken = self._net.call_later(_REFUSAL_S, self._heard)
        try:
            response = await self._ask(request, timeout_ms)
        finally:
            self._net.cancel(taken)
        joined = self._process_join_group_response(response, sent)
        self._metrics.joined((time.monotonic() - sent) * 1000)
        return joined

    async def _sync(self, assignments: Mapping[str, bytes]) -> bytes:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._generation.protocol,
            assignments=list(assignments.items()),
            max_version=_SYNC_VERSION,
        )
        sent = time.monotonic()
        response = await self._ask(request, self.config["request_timeout_ms"])
        assignment: bytes = self._process_sync_group_response(response, sent)
        self._metrics.synced((time.monotonic() - sent) * 1000)
        return assignment

    async def _ask(self, request: Any, timeout_ms: float) -> Any:
        """Send a request to the coordinator. Mark the coordinator dead if it does not answer."""
        node_id = self.coordinator_id
        try:
            return await self._manager.send(request, node_id=node_id, request_timeout_ms=timeout_ms)
        except KafkaError as error:
            self._failed_request(node_id, request, error)
            raise

    # Heartbeats and coordinator failure.

    def stable(self) -> bool:
        """Return whether to send heartbeats: in a group, or while assigning as its leader."""
        joining = self._completing and self.state is MemberState.REBALANCING
        return joining or bool(super().stable())

    async def _send_heartbeat_request(self) -> None:
        if self.coordinator_unknown():
            raise CoordinatorNotAvailableError(self.coordinator_id)
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=None,
        )
        sent = time.monotonic()
        left_ms = self._timeouts.session_ms - (sent - self._last_heard) * 1000
        # Give up a silent coordinator when the session ends, not when requests time out.
        timeout_ms = min(max(left_ms, 1), self.config["request_timeout_ms"])
        self._metrics.heartbeat_sent()
        response = await self._ask(request, timeout_ms)
        self._metrics.heartbeat_answered((time.monotonic() - sent) * 1000)
        self._handle_heartbeat_response(response, sent)

    def coordinator_dead(self, error: object) -> None:
        if self.coordinator_id is not None and self.lost_at is None:
            log.info("Group %s: lost its coordinator: %s", self.group_id, error)
            self.lost_at = lost_at(time.monotonic(), self._last_heard, self._timeouts)
        super().coordinator_dead(error)
        self._calls.wake()

    async def _send_group_coordinator_request(self) -> Any:
        # The response may name a broker that is down again and again.
        pause_s = self._next_lookup - time.monotonic()
        if pause_s > 0:
            await self._net.sleep(pause_s)
        self._next_lookup = time.monotonic() + self.config["retry_backoff_ms"] / 1000
        if not self._manager.bootstrapped:
            await self._manager.bootstrap_async()
        found = await super()._send_group_coordinator_request()
        # Send a heartbeat at once to learn whether the new coordinator still has this member.
        self.heartbeat.fail_heartbeat()
        return found

    def _process_join_group_response(self, response: Any, send_time: float) -> Any:
        joined = super()._process_join_group_response(response, send_time)
        self._heard()
        return joined

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        try:
            super()._handle_heartbeat_response(response, send_time)
        except RebalanceInProgressError:
            self._heard()
            raise
        except GroupAuthorizationFailedError:
            # The join callback informs the owner.
            self.request_rejoin()
            raise
        self._heard()

    def _beat_was_heard(self) -> None:
        """Count the session from when the heartbeat was sent, not from when its response was read.

        The coordinator counts from when it received the heartbeat. The response may be read much
        later if the process was suspended.
        """
        self.heartbeat.last_receive = self.heartbeat.last_send

    @property
    def _last_heard(self) -> float:
        return float(max(self.heartbeat.last_receive, self.heartbeat.last_reset))

    def _heard(self) -> None:
        if self.lost_at is not None:
            log.info("Group %s: found its coordinator", self.group_id)
            self.lost_at = None

    # Leaving the group.

    async def maybe_leave_group_async(
        self, reason: str | None = None, timeout_ms: float | None = None
    ) -> None:
        if reason is None:
            reason = _LEFT_ON_POLL_TIMEOUT
            log.warning(
                "Group %s: the worker was busy for longer than rebalance.timeout.ms (%d);"
                " leaving the group and rejoining when it is done. %s",
                self.group_id,
                self._timeouts.rebalance_ms,
                self._doing() or "",
            )
        await super().maybe_leave_group_async(reason, timeout_ms)


def lost_at(now: float, heard: float, timeouts: GroupTimeouts) -> float:
    """Return when a member must stop its work after its coordinator died at `now`.

    `heard` is the time of the last response. Other workers may get the work when the session ends.
    Pure.
    """
    session_end = heard + timeouts.session_ms / 1000
    return max(now, min(now + timeouts.heartbeat_ms / 1000, session_end))
