"""The consumer of a sink task: topics by list or regex, whole batches, commits with an answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import confluent_kafka

from connect.clients import factory
from connect.clients.errors import from_librdkafka, translated
from connect.clock import Clock
from connect.config.java_regex import compile_java_regex
from connect.config.types import ConfigType, parse_value
from connect.errors import ConnectError
from connect.plugin import TopicPartition

__all__ = ["SinkConsumer"]

# As Java's max.poll.records.
_BATCH = 500
_LIST_TOPICS_S = 10.0
_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

Partitions = list[TopicPartition]


class SinkConsumer:
    """Used by its task's thread only; callbacks run inside `poll` and `close`.

    `on_commit` gets the error of an asynchronous commit, or what was committed. librdkafka's
    regular expressions are not Java's: topics are matched here, each `metadata.max.age.ms`.
    """

    def __init__(
        self,
        props: Mapping[str, str],
        config: Mapping[str, str],
        clock: Clock,
        *,
        on_assign: Callable[[Partitions], None],
        on_revoke: Callable[[Partitions], None],
        on_lost: Callable[[Partitions], None],
        on_commit: Callable[[ConnectError | None, dict[TopicPartition, int]], None],
    ) -> None:
        self._clock = clock
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost
        self._on_commit = on_commit
        topics = parse_value("topics", config.get("topics"), ConfigType.LIST)
        self._topics = list(topics) if isinstance(topics, tuple) else []
        regex = (config.get("topics.regex") or "").strip()
        self._regex = compile_java_regex(regex) if regex else None
        self._refresh_s = int(props.get("metadata.max.age.ms", "300000")) / 1000
        self._refresh_due = clock.monotonic()
        self._batch = int(props.get("max.poll.records", str(_BATCH)))
        self._consumer = factory.consumer(
            {name: value for name, value in props.items() if name != "max.poll.records"},
            overrides={"on_commit": self._commit_answered},
        )
        if self._regex is None:
            self._subscribe(self._topics)

    def poll(self, timeout: float) -> list[confluent_kafka.Message]:
        """What arrived, in order, at most a batch; waits for the first record only."""
        if self._regex is not None and self._clock.monotonic() >= self._refresh_due:
            self._refresh_topics()
        with translated("Reading"):
            first = self._consumer.poll(timeout)
            if first is None:
                return []
            messages = [first]
            if self._batch > 1:
                messages += self._consumer.consume(self._batch - 1, 0)
        good = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
                continue
            found = from_librdkafka(error, f"Reading {message.topic() or 'topics'}")
            if not found.retriable:
                raise found
        return good

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        with translated("Pausing"):
            self._consumer.pause(_native(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        with translated("Resuming"):
            self._consumer.resume(_native(partitions))

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        with translated("Seeking"):
            for (topic, partition), offset in offsets.items():
                self._consumer.seek(confluent_kafka.TopicPartition(topic, partition, offset))

    def commit_soon(self, offsets: Mapping[TopicPartition, int]) -> None:
        """`on_commit` hears of it in a later `poll`."""
        with translated("Committing offsets"):
            self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=True)

    def commit_now(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Waits at most as long as the client's requests may take."""
        with translated("Committing offsets"):
            answers = self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=False)
        for answer in answers or ():
            if answer.error is not None:
                raise from_librdkafka(
                    answer.error, f"Committing the offset of {answer.topic}-{answer.partition}"
                )

    def close(self) -> None:
        """Leaves the group."""
        self._consumer.close()

    def _refresh_topics(self) -> None:
        assert self._regex is not None
        self._refresh_due = self._clock.monotonic() + self._refresh_s
        with translated("Listing topics"):
            found = self._consumer.list_topics(timeout=_LIST_TOPICS_S).topics
        topics = sorted(
            name for name in found if name not in _INTERNAL_TOPICS and self._regex.fullmatch(name)
        )
        if topics != self._topics:
            self._topics = topics
            self._subscribe(topics)

    def _subscribe(self, topics: Sequence[str]) -> None:
        with translated("Subscribing"):
            self._consumer.subscribe(
                list(topics),
                on_assign=lambda _, partitions: self._on_assign(_ours(partitions)),
                on_revoke=lambda _, partitions: self._on_revoke(_ours(partitions)),
                on_lost=lambda _, partitions: self._on_lost(_ours(partitions)),
            )

    def _commit_answered(
        self,
        error: confluent_kafka.KafkaError | None,
        partitions: list[confluent_kafka.TopicPartition],
    ) -> None:
        failed = error or next((p.error for p in partitions if p.error is not None), None)
        if failed is not None:
            self._on_commit(from_librdkafka(failed, "Committing offsets"), {})
        else:
            self._on_commit(None, {(p.topic, p.partition): p.offset for p in partitions})


def _ours(partitions: Sequence[confluent_kafka.TopicPartition]) -> Partitions:
    return [(partition.topic, partition.partition) for partition in partitions]


def _native(partitions: Collection[TopicPartition]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*partition) for partition in partitions]


def _with_offsets(
    offsets: Mapping[TopicPartition, int],
) -> list[confluent_kafka.TopicPartition]:
    return [
        confluent_kafka.TopicPartition(topic, partition, offset)
        for (topic, partition), offset in offsets.items()
    ]
