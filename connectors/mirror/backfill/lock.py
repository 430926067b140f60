"""Locks a flow, so that only one job of a kind runs at a time, and none before a killed one has
surely ended.

A running backfill is the only member of the group `<the flow's group>-backfill`; an archive has a
group of its own. A killed process stays a member for `SESSION_S`. Its pieces end before that on
whatever machine they run, so once the group is empty, no piece writes any more. The lock needs only
Kafka's group membership: no topic and no file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import confluent_kafka

from connect.clients.errors import from_librdkafka, not_authorized, translated
from connect.clients.groups.describe_group import GroupPeer, group_members
from connect.clients.librdkafka import factory
from connect.clock import Deadline
from connect.errors import BrokerError, BrokerUnavailable, ConnectError, DeadlineExceeded
from connectors.mirror.backfill.errors import AnotherBackfill
from connectors.mirror.inspect.flow import DedicatedFlow

__all__ = ["SESSION_S", "JobLock", "backfill_lock"]

SESSION_S = 30.0
"""Longer than a piece and the wait for its responses, plus some difference between clocks."""

_POLL_S = 0.2
_LOOK_S = 1.0
_JOIN_S = 60.0
_ASK_S = 30.0
_CLOSE_S = 10.0


def backfill_lock(flow: DedicatedFlow) -> JobLock:
    """Return the lock of a flow's backfills. The flow's offsets topic must exist before
    `acquire`."""
    return JobLock(
        f"{flow.group}-backfill",
        flow.client("backfill-lock"),
        flow.offsets_topic.name,
        f"backfill of {flow.name}",
        AnotherBackfill,
    )


class JobLock:
    """A lock. Call `acquire`, then `check` regularly, then `release`, all from one thread. An
    internal thread maintains the membership."""

    def __init__(
        self,
        group: str,
        client: Mapping[str, str],
        topic: str,
        job: str,
        refusal: type[ConnectError],
    ) -> None:
        """`client`: Java properties of the group's cluster. `topic`: any topic there that exists
        before `acquire` and that the client may read. `job`: what is locked, for people.
        `refusal`: the error if another one runs."""
        self._group = group
        self._client = client
        self._topic = topic
        self._job = job
        self._refusal = refusal
        self._log = factory.LibrdkafkaLog(self._group)
        self._stopping = threading.Event()
        self._joined = threading.Event()
        self._failure: ConnectError | None = None
        self._thread = threading.Thread(target=self._run, name=f"{self._group}-lock", daemon=True)

    def acquire(self, on_wait: Callable[[str], None]) -> None:
        """Wait until a killed job has ended, then take the lock.

        If that takes long, `on_wait` receives a sentence for the user. Raises `refusal`.
        """
        deadline = Deadline(SESSION_S + 5.0)
        told = False
        while peers := self._peers():
            if deadline.expired():
                raise self._another(peers)
            if not told:
                told = True
                on_wait(
                    f"another {self._job} runs or was killed ({peers[0]}): "
                    f"waiting up to {SESSION_S:.0f} s for it to leave the group"
                )
            self._stopping.wait(_LOOK_S)
        self._thread.start()
        joined = Deadline(_JOIN_S)
        while not self._joined.wait(_POLL_S):
            self.check()
            if joined.expired():
                raise DeadlineExceeded(
                    f"Joining group {self._group} took longer than {_JOIN_S:.0f} s"
                )
        peers = self._peers()
        if len(peers) > 1:
            raise self._another(peers)

    def check(self) -> None:
        """Raise if the membership is lost, because then another job may start."""
        if self._failure is not None:
            raise self._failure

    def release(self) -> None:
        """Leave the group. May be called repeatedly, and without `acquire`."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_S)

    def _peers(self) -> list[GroupPeer]:
        try:
            return group_members(self._client, self._group, Deadline(_ASK_S))
        except BrokerError as error:
            if not not_authorized(error):
                raise
            # To describe it would only lead to the next refusal.
            text = f"{error}; to join it, grant Read on group {self._group}"
            raise BrokerError(text, error.code) from error

    def _another(self, peers: list[GroupPeer]) -> ConnectError:
        return self._refusal(
            f"another {self._job} runs ({peers[0]}); wait for it to end or "
            "stop it (SIGTERM), then start this one again"
        )

    # Runs on the lock's internal thread.

    def _run(self) -> None:
        try:
            consumer = factory.consumer(
                self._client,
                overrides={
                    "group.id": self._group,
                    "session.timeout.ms": round(SESSION_S * 1000),
                    "auto.offset.reset": "latest",
                },
                log=self._log,
            )
        except ConnectError as error:
            self._failure = error
            return
        try:
            with translated(f"Joining group {self._group}", f"Read on group {self._group}"):
                consumer.subscribe(
                    [self._topic],
                    on_assign=self._assigned,
                    on_revoke=self._revoked,
                    on_lost=self._revoked,
                )
            while not self._stopping.is_set():
                self._turn(consumer)
        except ConnectError as error:
            self._failure = error
        finally:
            self._stopping.set()
            self._log.closing = True
            consumer.close()

    def _turn(self, consumer: confluent_kafka.Consumer) -> None:
        message = consumer.poll(_POLL_S)
        error = None if message is None else message.error()
        if error is not None:
            needs = f"Read on group {self._group}"
            found = from_librdkafka(error, f"Being in group {self._group}", needs)
            if not found.retriable:
                raise found

    def _assigned(
        self, consumer: confluent_kafka.Consumer, found: list[confluent_kafka.TopicPartition]
    ) -> None:
        # Only the membership matters: the member reads nothing.
        consumer.assign(found)
        consumer.pause(found)
        self._joined.set()

    def _revoked(
        self, consumer: confluent_kafka.Consumer, found: list[confluent_kafka.TopicPartition]
    ) -> None:
        if self._joined.is_set() and not self._stopping.is_set():
            self._failure = BrokerUnavailable(
                f"membership of group {self._group} was lost, so another {self._job} may start; "
                "start this one again"
            )
