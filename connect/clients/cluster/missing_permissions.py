"""Ask a cluster which permissions this client lacks, without changing anything.

Existing topics and the cluster are asked for the client's operations (KIP-430). Everything else is
asked by a request that the broker authorizes first and then cannot carry out: it names a topic, a
group member or a producer that does not exist, or is only validated. No request needs a
coordinator, because looking one up would create its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, ProduceRequest

from connect.clients.config.properties import wire_settings
from connect.clients.permissions import Operation, Permission, Resource
from connect.clients.wire.connection import WireConnection
from connect.clients.wire.find_coordinator import any_broker
from connect.clock import Deadline
from connect.protocol.error_codes import ErrorCode
from connect.protocol.record_codec import Record, encode_batch

__all__ = ["missing_permissions"]

_UNKNOWN_OPERATIONS = 31
"""The bit of a response that lists no operations."""
_REFUSED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_LAST_BY_NAME = 12
"""The last version of Produce that names topics; later ones have only topic ids (KIP-516)."""
_TOPIC_RESOURCE = 2
"""The code of topics in requests about configs."""
_NO_TRANSACTION_MS = 2**31 - 1
_NO_PARTITION = 2**31 - 1
"""No topic has it, so nothing can be written to it. The permission is checked first."""
_MEMBER = "no-such-member"
_TIMEOUT_MS = 10_000

Names = Collection[str]


def missing_permissions(
    props: Mapping[str, str], wanted: Collection[Permission], deadline: Deadline
) -> list[Permission]:
    """Return those of `wanted` that the cluster refuses this client, in their order.

    `props` are Java client properties. Permissions that the brokers are too old to report are not
    returned, nor is Create for a topic that exists. Raises one of `connect.errors`. Blocks; safe to
    call from any thread.
    """
    with closing(any_broker(wire_settings(props), deadline)) as connection:
        probe = _Probe(connection, deadline)
        refused = set(probe.refused(wanted))
    return [permission for permission in wanted if permission in refused]


class _Probe:
    def __init__(self, connection: WireConnection, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def refused(self, wanted: Collection[Permission]) -> Iterator[Permission]:
        topics = {each for each in wanted if each.resource is Resource.TOPIC}
        yield from self._topics(topics)
        for resource, ask in (
            (Resource.CLUSTER, self._cluster),
            (Resource.GROUP, self._group),
            (Resource.TRANSACTIONAL_ID, self._transactional_id),
        ):
            for each in wanted:
                if each.resource is resource and ask(each):
                    yield each

    def _topics(self, wanted: Collection[Permission]) -> Iterator[Permission]:
        allowed = self._topic_operations(sorted({each.name for each in wanted}))
        others: dict[Operation, set[str]] = {}
        for each in wanted:
            if each.name not in allowed:
                others.setdefault(each.operation, set()).add(each.name)
            elif each.operation not in {*allowed[each.name], Operation.CREATE}:
                yield each
        for operation, names in sorted(others.items()):
            ask = self._questions().get(operation)
            if ask is not None:
                for name in ask(sorted(names)):
                    yield Permission(Resource.TOPIC, name, operation)

    def _topic_operations(self, names: Names) -> dict[str, set[int]]:
        """Return the client's operations on the topics that exist and that it may describe."""
        if not names:
            return {}
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = self._call(request)
        return {
            each.name: operations
            for each in answer.topics
            if not each.error_code and (operations := _told(each.authorized_operations))
        }

    def _questions(self) -> dict[Operation, Callable[[Names], Iterable[str]]]:
        """Return, by operation, the question about topics that do not exist or cannot be
        described."""
        return {
            Operation.READ: self._read,
            Operation.WRITE: self._write,
            Operation.CREATE: self._create,
            Operation.ALTER: self._alter,
            Operation.DESCRIBE_CONFIGS: self._describe_configs,
            Operation.ALTER_CONFIGS: self._alter_configs,
        }

    def _call(self, request: Any) -> Any:
        return self._connection.call(request, self._deadline)

    def _offers(self, request: Any) -> bool:
        return request.API_KEY in self._connection.api_versions

    def _read(self, names: Names) -> Iterator[str]:
        if not self._offers(DescribeProducersRequest):
            return
        request = DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[0])
                for name in names
            ]
        )
        for each in self._call(request).topics:
            if any(partition.error_code in _REFUSED for partition in each.partitions):
                yield each.name

    def _write(self, names: Names) -> Iterator[str]:
        topic = ProduceRequest.TopicProduceData
        offered = self._connection.version_of(
            ProduceRequest.API_KEY, _LAST_BY_NAME, name=ProduceRequest.name
        )
        # Brokers before 2.8 close the connection if there are no records.
        records = encode_batch([Record(0, 0, None, None)])
        nowhere = topic.PartitionProduceData(index=_NO_PARTITION, records=records)
        request = ProduceRequest(
            version=offered,
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[topic(name=name, partition_data=[nowhere]) for name in names],
        )
        for each in self._call(request).responses:
            if any(part.error_code in _REFUSED for part in each.partition_responses):
                yield each.name

    def _create(self, names: Names) -> Sequence[str]:
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
                for name in names
            ],
            timeout_ms=_TIMEOUT_MS,
            validate_only=True,
        )
        return _refused(self._call(request).topics, "name")

    def _alter(self, names: Names) -> Sequence[str]:
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=1, assignments=None)
                for name in names
            ],
            timeout_ms=_TIMEOUT_MS,
            validate_only=True,
        )
        return _refused(self._call(request).results, "name")

    def _describe_configs(self, names: Names) -> Sequence[str]:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        request = DescribeConfigsRequest(
            resources=[
                resource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
                for name in names
            ]
        )
        return _refused(self._call(request).results, "resource_name")

    def _alter_configs(self, names: Names) -> Sequence[str]:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        request = IncrementalAlterConfigsRequest(
            resources=[
                resource(resource_type=_TOPIC_RESOURCE, resource_name=name, configs=[])
                for name in names
            ],
            validate_only=True,
        )
        return _refused(self._call(request).responses, "resource_name")

    def _cluster(self, wanted: Permission) -> bool:
        if wanted.operation is Operation.IDEMPOTENT_WRITE:
            return self._idempotent_write()
        if not self._offers(DescribeClusterRequest):
            return False
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = self._call(request)
        operations = _told(answer.authorized_operations)
        return operations is not None and wanted.operation not in operations

    def _idempotent_write(self) -> bool:
        if self._offers(DescribeClusterRequest):
            # As old as the change by which Write on any topic suffices: 2.8 (KIP-700, KIP-679).
            return False
        # Each start of a producer takes such an id, too; nothing else is changed.
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_MS
        )
        return self._call(request).error_code in _REFUSED

    def _group(self, wanted: Permission) -> bool:
        if wanted.operation is Operation.READ:
            request = HeartbeatRequest(
                group_id=wanted.name, generation_id=0, member_id=_MEMBER, group_instance_id=None
            )
            return self._call(request).error_code in _REFUSED
        answer = self._call(DescribeGroupsRequest(groups=[wanted.name]))
        return any(found.error_code in _REFUSED for found in answer.groups)

    def _transactional_id(self, wanted: Permission) -> bool:
        if wanted.operation is Operation.WRITE:
            # No transaction belongs to producer -1, so the broker ends none.
            request = EndTxnRequest(
                transactional_id=wanted.name, producer_id=-1, producer_epoch=-1, committed=False
            )
            return self._call(request).error_code in _REFUSED
        if not self._offers(DescribeTransactionsRequest):
            return False
        asked = DescribeTransactionsRequest(transactional_ids=[wanted.name])
        states = self._call(asked).transaction_states
        return any(state.error_code in _REFUSED for state in states)


def _refused(answers: Iterable[Any], name: str) -> Sequence[str]:
    return [getattr(each, name) for each in answers if each.error_code in _REFUSED]


def _told(operations: object) -> set[int] | None:
    """Return the codes of the operations that an answer lists; None if it has no such list."""
    if not isinstance(operations, set) or _UNKNOWN_OPERATIONS in operations:
        return None
    return operations
