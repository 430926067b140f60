"""Manage topics, their configs and ACLs with typed, blocking calls of confluent-kafka's admin
client.

Every call takes a timeout in seconds and raises one of `connect.errors`. Safe to use from several
threads at once.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka.admin import (
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from connect.clients.errors import broker_code, translated
from connect.clients.librdkafka.acls import TOPIC_ACLS, Acl
from connect.clients.librdkafka.admin_connection import AdminConnection
from connect.clients.librdkafka.descriptions import (
    ConfigChange,
    ConfigEntry,
    TopicCreation,
    TopicDescription,
    config_entries,
    incremental_entry,
    topic_description,
)
from connect.clients.permissions import Operation
from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from connect.protocol.error_codes import ErrorCode, code_facts
from connect.topic_partition import TopicPartition

__all__ = ["DEFAULT_TIMEOUT_S", "Admin"]

DEFAULT_TIMEOUT_S = 60.0
"""Java's default.api.timeout.ms."""

_PATIENCE_S = 5.0
"""How long the first query for offsets waits for a leader that does not answer; each later query
waits twice as long."""


# Topics that brokers themselves call internal (Java's `Topic`). Java's listings omit them too.
BROKER_INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)

# confluent-kafka has no type annotations for these two.
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

K = TypeVar("K")


class Admin(AdminConnection):
    """Topics, configs, offsets and ACLs of a cluster."""

    def cluster_id(self, timeout: float = DEFAULT_TIMEOUT_S) -> str:
        """Return the cluster id, which is the same on every broker."""
        client = self._open()
        result = self._answer(
            "Describing the cluster", client.describe_cluster(request_timeout=timeout), timeout
        )
        return str(result.cluster_id)

    def broker_count(self, timeout: float = DEFAULT_TIMEOUT_S) -> int:
        """Return the number of running brokers, which is the largest possible replication
        factor.
        """
        result = self._answer(
            "Describing the cluster",
            self._open().describe_cluster(request_timeout=timeout),
            timeout,
        )
        return len(result.nodes)

    def list_topics(self, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, int]:
        """Return every topic except the brokers' internal ones, with its number of partitions."""
        metadata = self._metadata("Listing topics", timeout)
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None and name not in BROKER_INTERNAL_TOPICS
        }

    def describe_topics(
        self,
        names: Collection[str],
        timeout: float = DEFAULT_TIMEOUT_S,
        needed: str = "Describe",
    ) -> dict[str, TopicDescription]:
        """Return the descriptions of these topics, without those that do not exist. `needed`: the
        operation to grant where the broker denies access, because more will be done than this."""
        described = {}
        for name, found in self._asked_for(names, timeout, needed).items():
            if isinstance(found, TopicDescription):
                described[name] = found
            elif broker_code(found) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise found
        return described

    def forbidden_topics(
        self, names: Collection[str], timeout: float = DEFAULT_TIMEOUT_S
    ) -> set[str]:
        """Return those of these topics that this client may not describe, whether or not they
        exist.

        Listings silently omit such topics.
        """
        return {
            name
            for name, found in self._asked_for(names, timeout).items()
            if isinstance(found, ConnectError)
            and broker_code(found) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        }

    def _asked_for(
        self, names: Collection[str], timeout: float, needed: str = "Describe"
    ) -> dict[str, TopicDescription | ConnectError]:
        if not names:
            return {}
        client = self._open()
        with translated("Describing topics"):
            futures = client.describe_topics(
                confluent_kafka.TopicCollection(list(names)), request_timeout=timeout
            )
        found: dict[str, TopicDescription | ConnectError] = {}
        for name, future in futures.items():
            try:
                result = self._answer(
                    f"Describing topic {name}", future, timeout, f"{needed} on topic {name}"
                )
            except ConnectError as error:
                found[name] = error
            else:
                found[name] = topic_description(result)
        return found

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> bool:
        """Create a topic. Return False, without any change, if it exists already.

        -1 for `partitions` and `replication_factor` means the broker's default.
        """
        topic = TopicCreation(name, partitions, replication_factor, configs or {})
        outcome = Admin.create_topics(self, [topic], timeout)[name]
        if isinstance(outcome, ConnectError):
            raise outcome
        return outcome

    def create_topics(
        self, topics: Sequence[TopicCreation], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, bool | ConnectError]:
        """Create topics by one request. Return for each what `create_topic` returns or raises; one
        that fails does not keep the others from being created.

        A KRaft controller refuses requests of more than 10,000 partitions.
        """
        named = topics[0].name if len(topics) == 1 else f"{len(topics)} topics"
        with translated(f"Creating topic {named}"):
            futures = self._open().create_topics(
                [
                    NewTopic(
                        topic.name,
                        num_partitions=topic.partitions,
                        replication_factor=topic.replication_factor,
                        config=dict(topic.configs),
                    )
                    for topic in topics
                ],
                request_timeout=timeout,
            )
        return {name: self._created(name, futures[name], timeout) for name in futures}

    def _created(
        self, name: str, future: concurrent.futures.Future[Any], timeout: float
    ) -> bool | ConnectError:
        try:
            self._answer(f"Creating topic {name}", future, timeout, f"Create on topic {name}")
        except ConnectError as error:
            return False if broker_code(error) == ErrorCode.TOPIC_ALREADY_EXISTS else error
        return True

    def create_partitions(self, name: str, total: int, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Increase the partitions of a topic to `total`."""
        client = self._open()
        what = f"Raising topic {name} to {total} partitions"
        with translated(what):
            request = [NewPartitions(name, total)]
            future = client.create_partitions(request, request_timeout=timeout)[name]
        self._answer(what, future, timeout, f"Alter on topic {name}")

    def describe_topic_configs(
        self,
        names: Collection[str],
        timeout: float = DEFAULT_TIMEOUT_S,
        *,
        missing_ok: bool = False,
        needs: Operation = Operation.DESCRIBE_CONFIGS,
    ) -> dict[str, list[ConfigEntry]]:
        """Return all configs of these topics, including defaults.

        Raises if a topic does not exist; with `missing_ok` it is absent from the result. `needs`:
        the operation to grant if describing is refused, for a caller that also changes configs.
        """
        if not names:
            return {}
        client = self._open()
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        with translated("Describing topic configs"):
            futures = client.describe_configs(resources, request_timeout=timeout)
        described = {}
        for resource, future in futures.items():
            what = f"Describing the configs of topic {resource.name}"
            try:
                described[resource.name] = config_entries(
                    self._answer(what, future, timeout, f"{needs} on topic {resource.name}")
                )
            except ConnectError as error:
                if not missing_ok or broker_code(error) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        return described

    def alter_topic_configs(
        self, changes: Mapping[str, Sequence[ConfigChange]], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, ConnectError]:
        """Change these topic configs and no others (KIP-339).

        Returns the error of each topic that failed; none of its configs has changed.
        """
        if not changes:
            return {}
        resources = [
            ConfigResource(
                ResourceType.TOPIC,
                name,
                incremental_configs=[incremental_entry(change) for change in of_topic],
            )
            for name, of_topic in changes.items()
        ]
        with translated("Changing topic configs"):
            futures = self._open().incremental_alter_configs(resources, request_timeout=timeout)
        return self._failures(
            {
                resource.name: (
                    f"Changing configs of topic {resource.name}",
                    f"AlterConfigs on topic {resource.name}",
                    future,
                )
                for resource, future in futures.items()
            },
            timeout,
        )

    def describe_topic_acls(self, timeout: float = DEFAULT_TIMEOUT_S) -> list[Acl]:
        """Return all ACLs of topics.

        The list is empty also if the cluster has no authorizer, as librdkafka does not report that.
        """
        what = "Describing the ACLs of topics"
        with translated(what):
            future = self._open().describe_acls(TOPIC_ACLS, request_timeout=timeout)
        found = self._answer(what, future, timeout, "Describe on the cluster")
        return [Acl.of_binding(binding) for binding in found]

    def create_acls(
        self, acls: Collection[Acl], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[Acl, ConnectError]:
        """Create these ACLs, and return those that failed. An ACL may exist already."""
        if not acls:
            return {}
        bindings = {acl.binding(): acl for acl in acls}
        with translated("Creating ACLs"):
            futures = self._open().create_acls(list(bindings), request_timeout=timeout)
        return self._failures(
            {
                bindings[binding]: (
                    f"Creating the ACL {bindings[binding]}",
                    "Alter on the cluster",
                    future,
                )
                for binding, future in futures.items()
            },
            timeout,
        )

    def _failures(
        self, asked: Mapping[K, tuple[str, str, concurrent.futures.Future[Any]]], timeout: float
    ) -> dict[K, ConnectError]:
        failed: dict[K, ConnectError] = {}
        for key, (what, needs, future) in asked.items():
            try:
                self._answer(what, future, timeout, needs)
            except ConnectError as error:
                failed[key] = error
        return failed

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each (topic, partition), ignoring transactions."""
        return self._offsets(partitions, _LATEST, "end", timeout)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each (topic, partition)."""
        return self._offsets(partitions, _EARLIEST, "beginning", timeout)

    def offsets_for_timestamp(
        self,
        partitions: Iterable[TopicPartition],
        timestamp_ms: int,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> dict[TopicPartition, int]:
        """Return each partition's first offset with a timestamp of at least `timestamp_ms`.

        The offset is -1 if all records are older.
        """
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        return self._offsets(partitions, spec, f"{timestamp_ms} ms", timeout)

    def records_at(
        self, times: Mapping[TopicPartition, int], timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return offset and timestamp of each partition's first record at or after its time (ms).

        The result is (-1, -1) if all records are older.
        """
        query = {
            confluent_kafka.TopicPartition(*key): OffsetSpec.for_timestamp(at)
            for key, at in times.items()
        }
        if not query:
            return {}
        found = self._listed(query, "timestamp", timeout)
        return {key: (answer.offset, answer.timestamp) for key, answer in found.items()}

    def _offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        which: str,
        timeout: float,
    ) -> dict[TopicPartition, int]:
        query = {confluent_kafka.TopicPartition(*key): spec for key in partitions}
        if not query:
            return {}
        found = self._listed(query, which, timeout)
        return {key: int(answer.offset) for key, answer in found.items()}

    def _listed(
        self, query: dict[confluent_kafka.TopicPartition, OffsetSpec], which: str, timeout: float
    ) -> dict[TopicPartition, Any]:
        """librdkafka queries the leaders in its cache, with their epochs, and keeps doing so after
        an error. If its cache has no leader, it sends no query.

        A query waits for the leader that it was made for until its timeout, even if that broker is
        down and another one leads by then. Each query therefore gets only a part of the time, and
        the leaders are looked up again before the next one."""
        deadline = Deadline(timeout)
        patience, stale = _PATIENCE_S, False
        while True:
            try:
                return self._listed_once(query, which, min(patience, deadline.remaining()))
            except DeadlineExceeded:
                if deadline.expired():
                    raise
                patience *= 2
                with suppress(ConnectError):  # until the time is up
                    self._look_up_leaders(min(patience, deadline.remaining()))
            except ConnectError as error:
                code = broker_code(error)
                if stale or code is None or not code_facts(code).stale_metadata:
                    raise
                stale = True
                self._look_up_leaders(deadline.remaining())

    def _look_up_leaders(self, timeout: float) -> None:
        """Refresh librdkafka's cache of leaders. Only a metadata request does that, and
        librdkafka's own request comes after minutes. The request is for all topics because asking
        for one by name may create it."""
        self._metadata("Looking for the leaders of topics", max(1.0, timeout))

    def _listed_once(
        self, query: dict[confluent_kafka.TopicPartition, OffsetSpec], which: str, timeout: float
    ) -> dict[TopicPartition, Any]:
        client = self._open()
        with translated(f"Listing {which} offsets"):
            futures = client.list_offsets(query, request_timeout=timeout)
        return {
            (found.topic, found.partition): self._answer(
                f"Listing the {which} offset of {found.topic}-{found.partition}",
                future,
                timeout,
                f"Describe on topic {found.topic}",
            )
            for found, future in futures.items()
        }
