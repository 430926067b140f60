"""A member of the consumer group on the source, whose coordinator shares out the partitions.

It is an ordinary member of Kafka's consumer protocol, through librdkafka, so Java's MirrorMaker 1
can be another member, and Kafka's tools show its lag. All partitions arrive paused: the owner
resumes those whose records it wants; for the others the member only keeps the assignment and
commits offsets. The callbacks run on the owner's thread, inside `poll` and `close`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import confluent_kafka

from connect.clients.config.properties import librdkafka_config
from connect.clients.errors import from_librdkafka
from connect.clients.librdkafka import factory
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition

__all__ = ["OnPartitions", "SourceGroup"]

_LOG = logging.getLogger(__name__)

OnPartitions = Callable[[Sequence[TopicPartition]], None]

_PREFETCH_KB = 16 * 1024


class SourceGroup:
    """One member. Belongs to one thread, which owns and closes it."""

    def __init__(
        self,
        props: Mapping[str, str],
        on_assigned: OnPartitions,
        on_revoked: OnPartitions,
        on_lost: OnPartitions,
    ) -> None:
        """`on_revoked`: they can still be committed in the call. `on_lost`: other members may have
        them. Raises `ConfigError`."""
        self.group = props["group.id"]
        self._needed = f"Read on group {self.group} and its topics"
        config = librdkafka_config(props, "consumer")
        strategy = str(config.get("partition.assignment.strategy", ""))
        # With the newer group protocol (KIP-848) the broker assigns, and always step by step.
        self._cooperative = "cooperative" in strategy or config.get("group.protocol") == "consumer"
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._committing: dict[TopicPartition, int] | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._log = factory.LibrdkafkaLog(props.get("client.id") or self.group)
        self._consumer = factory.consumer(
            props,
            overrides={
                "queued.max.messages.kbytes": _PREFETCH_KB,
                "on_commit": self._commit_answered,
            },
            log=self._log,
        )

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics, at least one; the group rebalances."""
        self._consumer.subscribe(
            list(topics), on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )

    def poll(self, records: int, timeout_s: float) -> list[Any]:
        """Return at most this many messages of resumed partitions. Raises errors for which the
        group is closed to this member, such as a missing permission."""
        messages = []
        for message in self._consumer.consume(records, timeout_s):
            error = message.error()
            if error is None:
                messages.append(message)
            else:
                self._judge(error)
        return messages

    def resume(self, partition: TopicPartition, offset: int | None) -> None:
        """Consume this assigned partition from `offset` on; None: as auto.offset.reset says."""
        if offset is not None:
            self._consumer.seek(confluent_kafka.TopicPartition(*partition, offset))
        self._consumer.resume([confluent_kafka.TopicPartition(*partition)])

    def pause(self, partitions: Collection[TopicPartition], *, on: bool) -> None:
        """Stop or go on consuming these assigned partitions."""
        listed = [confluent_kafka.TopicPartition(*each) for each in partitions]
        if listed and on:
            self._consumer.pause(listed)
        elif listed:
            self._consumer.resume(listed)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Begin to commit these offsets; not while another commit is under way. Returns whether it
        began."""
        if self._committing is not None or not offsets:
            return False
        self._committing = dict(offsets)
        try:
            self._consumer.commit(offsets=_listed(offsets), asynchronous=True)
        except confluent_kafka.KafkaException as error:
            self._committing = None
            self._warn(error)
            return False
        return True

    def take_committed(self) -> dict[TopicPartition, int]:
        """Return the offsets that were committed since the last call."""
        committed, self._committed = self._committed, {}
        return committed

    def commit_now(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit these offsets and wait for the answer. Returns whether all were committed."""
        if not offsets:
            return True
        try:
            answers = self._consumer.commit(offsets=_listed(offsets), asynchronous=False)
        except confluent_kafka.KafkaException as error:
            self._warn(error)
            return False
        failed = [each.error for each in answers if each.error is not None]
        if failed:
            self._warn(failed[0])
        return not failed

    def close(self) -> None:
        """Leave the group. `on_revoked` is called for what is still assigned."""
        self._log.closing = True
        self._consumer.close()

    def _assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        if self._cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        if partitions:
            consumer.pause(partitions)
        self._on_assigned(_keys(partitions))

    def _revoke(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        self._on_revoked(_keys(partitions))

    def _lose(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        self._on_lost(_keys(partitions))

    def _commit_answered(self, error: Any, partitions: Sequence[Any]) -> None:
        committing, self._committing = self._committing, None
        failed = error or next((each.error for each in partitions if each.error), None)
        if failed is not None:
            self._warn(failed)
        elif committing is not None:
            self._committed.update(committing)

    def _warn(self, error: Any) -> None:
        _LOG.warning(
            "%s; the offsets are committed with the next ones, or copied again by the next member",
            from_librdkafka(error, f"Committing offsets of group {self.group}", self._needed),
        )

    def _judge(self, error: confluent_kafka.KafkaError) -> None:
        found = from_librdkafka(error, f"Consuming in group {self.group}", self._needed)
        if error.fatal() or error.code() in _REFUSED:
            raise ConnectError(str(found))
        _LOG.warning("%s", found)


_REFUSED = (
    confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED,
    confluent_kafka.KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    confluent_kafka.KafkaError._AUTHENTICATION,
)


def _keys(partitions: Sequence[Any]) -> list[TopicPartition]:
    return [(each.topic, each.partition) for each in partitions]


def _listed(offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*key, offset) for key, offset in offsets.items()]
