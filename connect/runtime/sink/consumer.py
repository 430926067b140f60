"""The consumer of a sink task: topics by list or regex, whole batches, commits with a response.

Calls that may block inside the client, the last commit and the close, run on a separate thread, so
that the task's deadlines hold even if brokers do not answer. During a rebalance this is impossible:
the client lets no other thread commit until its callback has returned.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

import confluent_kafka
import confluent_kafka.admin

from connect.clients.config.properties import librdkafka_config
from connect.clients.errors import from_librdkafka, translated
from connect.clients.librdkafka import factory
from connect.clients.librdkafka.login_refusals import LoginRefusals
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import Clock, Deadline
from connect.config.java_regex import JavaRegex, compile_java_regex
from connect.config.types import ConfigType, parse_value
from connect.errors import AuthenticationFailed, ConnectError, DeadlineExceeded
from connect.loop import Backoff
from connect.plugin import TopicPartition

__all__ = ["SinkConsumer"]

_log = logging.getLogger(__name__)

# As Java's max.poll.records.
_BATCH = 500
# A stop waits for this call, so it is short; after a timeout it is retried soon.
_LIST_TOPICS_S = 3.0
_LIST_BACKOFF_S, _LIST_BACKOFF_CAP_S = 1.0, 30.0
# How often topics of the list that do not exist are looked for, one by one, as Java's client does.
# Many of them cost an answer about all topics.
_LOOK_S, _LOOK_AT_MANY_S = 1.0, 10.0
_FEW_TOPICS = 10
# How long a late commit delays the close of its client, on a separate thread.
_LATE_COMMIT_S = 120.0
_NOT_YET = frozenset(
    {
        confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
        confluent_kafka.KafkaError.LEADER_NOT_AVAILABLE,
        confluent_kafka.KafkaError._UNKNOWN_TOPIC,
    }
)
_COMMITTING = "Committing offsets"
_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

Partitions = list[TopicPartition]


class SinkConsumer:
    """A consumer for its task's thread. Callbacks run inside `poll`, or on another thread in
    `close`.

    `on_assign` returns the start offsets of partitions that do not start at the last commit.
    `on_commit` gets the offsets of an asynchronous commit and its error. librdkafka's regular
    expressions differ from Java's, so topics are matched here every `metadata.max.age.ms`.
    """

    def __init__(
        self,
        props: Mapping[str, str],
        config: Mapping[str, str],
        clock: Clock,
        *,
        on_assign: Callable[[Partitions], Mapping[TopicPartition, int]],
        on_revoke: Callable[[Partitions], None],
        on_lost: Callable[[Partitions], None],
        on_commit: Callable[[ConnectError | None, dict[TopicPartition, int]], None],
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the consumer. `props` are Java's, `overrides` librdkafka's."""
        self._clock = clock
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost
        self._on_commit = on_commit
        topics = parse_value("topics", config.get("topics"), ConfigType.LIST)
        self._topics = list(topics) if isinstance(topics, tuple) else []
        regex = (config.get("topics.regex") or "").strip()
        self._regex = compile_java_regex(regex) if regex else None
        self._refresh_s = int(props.get("metadata.max.age.ms", "300000")) / 1000
        self._refresh_due = clock.monotonic()
        self._refresh_backoff = Backoff(_LIST_BACKOFF_S, _LIST_BACKOFF_CAP_S)
        self._missing = set() if regex else set(self._topics)
        self._batch = int(props.get("max.poll.records", str(_BATCH)))
        props = {name: value for name, value in props.items() if name != "max.poll.records"}
        self._incremental = _is_incremental(librdkafka_config(props, "consumer"))
        self._consumer_group = props.get("group.id", "")
        self._needed = f"Read on group {self._consumer_group} and its topics"
        self._refusals = LoginRefusals(props, clock)
        own = {"on_commit": self._commit_answered, **self._refusals.librdkafka_config()}
        self._consumer = factory.consumer(props, overrides={**(overrides or {}), **own})
        self._threads = OneShotThreads(f"sink-{props.get('client.id', 'consumer')}")
        self._late: list[Future[None]] = []
        self._rebalancing = False
        if self._regex is None:
            self._subscribe(self._topics)

    def poll(self, timeout: float) -> list[confluent_kafka.Message]:
        """Return a batch of consumed messages, in order. Waits only for the first one.

        Raises `AuthenticationFailed` if brokers refuse the login, as Java's consumer does.
        """
        self._need_login()
        if self._clock.monotonic() >= self._refresh_due:
            self._refresh()
        with translated("Reading"):
            first = self._consumer.poll(timeout)
            if first is None:
                return []
            if first.error() is None:
                self._refusals.answered()
            messages = [first]
            if self._batch > 1:
                messages += self._consumer.consume(self._batch - 1, 0)
        good = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
                continue
            if error.code() == confluent_kafka.KafkaError._MAX_POLL_EXCEEDED:
                # A put took too long, which the client has logged. It has left the group, loses its
                # partitions in the next poll, and joins again, as Java's does.
                continue
            topic = message.topic()
            group = self._consumer_group
            needs = f"Read on topic {topic}" if topic else f"Read on group {group}"
            found = from_librdkafka(error, f"Reading {topic or 'topics'}", needs)
            if not found.retriable:
                raise found
        return good

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        with translated("Pausing"):
            self._consumer.pause(_native(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        with translated("Resuming"):
            self._consumer.resume(_native(partitions))

    def seek(self, place: TopicPartition, offset: int) -> bool:
        """Seek. Return False if the client has not started to read the partition yet."""
        try:
            self._consumer.seek(confluent_kafka.TopicPartition(*place, offset))
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() == confluent_kafka.KafkaError._STATE:
                return False
            raise from_librdkafka(error, f"Seeking in {place[0]}-{place[1]}") from error
        return True

    def commit_soon(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit asynchronously. A later `poll` calls `on_commit`."""
        with translated(_COMMITTING, self._needed):
            self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=True)

    def commit_now(self, offsets: Mapping[TopicPartition, int], deadline: Deadline) -> None:
        """Commit and wait. Raises `DeadlineExceeded` without a response; the commit may still
        succeed.

        During a rebalance the client's own limits apply, as in Java: `session.timeout.ms` without a
        coordinator, and a minute without a response.
        """
        if self._rebalancing:
            self._commit(offsets)
            return
        answer = self._threads.run("commit", lambda: self._commit(offsets))
        wait([answer], deadline.remaining())
        if not answer.done():
            self._late.append(answer)
            raise DeadlineExceeded("No response to an offset commit in time")
        answer.result()

    def close(self, deadline: Deadline) -> bool:
        """Leave the group. Return False if that takes longer; it continues in the background."""
        ended = self._threads.run("close", self._end)
        wait([ended], deadline.remaining())
        if not ended.done():
            return False
        ended.result()
        return True

    def _need_login(self) -> None:
        refusal = self._refusals.step(waiting=True)
        if refusal is not None:
            raise AuthenticationFailed(f"Consuming failed: {refusal}") from refusal

    def _end(self) -> None:
        self._refusals.close()
        # The client must not be closed while a call uses it.
        wait(self._late, _LATE_COMMIT_S)
        self._consumer.close()

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        with translated(_COMMITTING, self._needed):
            answers = self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=False)
        for answer in answers or ():
            if answer.error is not None:
                raise from_librdkafka(
                    answer.error,
                    f"Committing the offset of {answer.topic}-{answer.partition}",
                    f"Read on group {self._consumer_group} and topic {answer.topic}",
                )

    def _refresh(self) -> None:
        """Look for topics that appeared. After an error, keep what is known and retry soon."""
        try:
            if self._regex is not None:
                self._subscribe_to_matching(self._regex)
                wait_s = self._refresh_s
            else:
                self._look_for_missing()
                few = len(self._missing) <= _FEW_TOPICS
                wait_s = _LOOK_S if few else _LOOK_AT_MANY_S
                wait_s = wait_s if self._missing else math.inf
        except ConnectError as error:
            if not error.retriable:
                raise
            wait_s = self._refresh_backoff.next()
            _log.warning("%s; retrying to look for new topics in %g s", error, wait_s)
        else:
            self._refresh_backoff.reset()
        self._refresh_due = self._clock.monotonic() + wait_s

    def _look_for_missing(self) -> None:
        """Let the client notice topics of the list that were created.

        By itself it looks for them every `metadata.max.age.ms`; Java's does every second. Its group
        membership uses only responses about all topics, so all topics are requested when one was
        created.
        """
        if len(self._missing) <= _FEW_TOPICS:
            missing = {name for name in sorted(self._missing) if not self._exists(name)}
            if missing == self._missing:
                return
        found = self._listed(None)
        self._missing = {
            name for name in self._missing if name not in found or _unknown(found[name])
        }

    def _exists(self, topic: str) -> bool:
        found = self._listed(topic).get(topic)
        return found is not None and not _unknown(found)

    def _listed(self, topic: str | None) -> dict[str, confluent_kafka.admin.TopicMetadata]:
        with translated("Listing topics"):
            if topic is None:
                return dict(self._consumer.list_topics(timeout=_LIST_TOPICS_S).topics)
            return dict(self._consumer.list_topics(topic, timeout=_LIST_TOPICS_S).topics)

    def _subscribe_to_matching(self, regex: JavaRegex) -> None:
        topics = sorted(
            name
            for name in self._listed(None)
            if name not in _INTERNAL_TOPICS and regex.fullmatch(name)
        )
        if topics != self._topics:
            self._topics = topics
            self._subscribe(topics)

    def _subscribe(self, topics: Sequence[str]) -> None:
        with translated("Subscribing"):
            if not topics:
                # librdkafka refuses an empty list, so the task joins the group when there is a
                # topic.
                self._consumer.unsubscribe()
                return
            self._consumer.subscribe(
                list(topics),
                on_assign=lambda _, partitions: self._assigned(partitions),
                on_revoke=lambda _, partitions: self._revoked(_ours(partitions)),
                on_lost=lambda _, partitions: self._on_lost(_ours(partitions)),
            )

    def _revoked(self, partitions: Partitions) -> None:
        self._rebalancing = True
        try:
            self._on_revoke(partitions)
        finally:
            self._rebalancing = False

    def _assigned(self, partitions: list[confluent_kafka.TopicPartition]) -> None:
        starts = self._on_assign(_ours(partitions))
        if not starts:
            # The client continues by itself at the last commits.
            return
        for partition in partitions:
            start = starts.get((partition.topic, partition.partition))
            if start is not None:
                partition.offset = start
        if self._incremental:
            self._consumer.incremental_assign(partitions)
        else:
            self._consumer.assign(partitions)

    def _commit_answered(
        self,
        error: confluent_kafka.KafkaError | None,
        partitions: list[confluent_kafka.TopicPartition],
    ) -> None:
        failed = error or next((p.error for p in partitions if p.error is not None), None)
        found = None
        if failed is not None:
            found = from_librdkafka(failed, _COMMITTING, self._needed)
        self._on_commit(found, {(p.topic, p.partition): p.offset for p in partitions})


def _unknown(topic: confluent_kafka.admin.TopicMetadata) -> bool:
    """Return whether a topic does not exist, or not on all brokers yet."""
    error = topic.error
    return error is not None and error.code() in _NOT_YET


def _is_incremental(config: Mapping[str, object]) -> bool:
    """Return whether librdkafka's config uses incremental (cooperative) rebalances."""
    if config.get("group.protocol") == "consumer":
        return True
    return str(config.get("partition.assignment.strategy", "")).startswith("cooperative")


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
