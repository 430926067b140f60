"""Sets where a flow begins that takes over from another tool: at a group's offsets, at a time, or
at offsets that `given_offsets` reads. Stores these positions as the flow's source offsets, in
Connect's own format.

The flow must not run meanwhile. Used by the command line, on its main thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from connect.clients.groups.consumer_groups import ConsumerGroups
from connect.clients.librdkafka.admin import Admin
from connect.clock import Deadline
from connect.errors import ConfigError, ConnectError
from connect.protocol.messages import TopicPartition
from connect.storage.offset_admin import write_offsets
from connect.storage.offset_store import KafkaOffsetStore
from connectors.mirror.config import clients as client_configs
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.running_flow import look_at_flow
from connectors.mirror.inspect.source_topics import refuse_hidden_sources
from connectors.mirror.offsets.reset_start_positions import forget_first_positions
from connectors.mirror.offsets.source_offsets import source_partition
from connectors.mirror.topics.clusters import topic_selector
from connectors.mirror.topics.selection import partitions_of

__all__ = ["Start", "starts", "store_starts"]

_CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Start:
    """The next offset that the flow copies of a source partition. `known`: whether the group or
    the file has it; otherwise it is the partition's first offset."""

    topic: str
    partition: int
    offset: int
    known: bool = True


def starts(
    flow: DedicatedFlow,
    deadline: Deadline,
    *,
    group: str | None = None,
    timestamp_ms: int | None = None,
    offsets: Mapping[TopicPartition, int] | None = None,
) -> list[Start]:
    """Return where the flow's partitions begin. Exactly one of the keywords is given.

    Offsets outside a partition's log are an error, because records would be missing or copied
    twice. Raises `ConfigError` and `ConnectError`.
    """
    config = flow.config
    props = client_configs.source_admin(config.originals)
    with closing(Admin(props)) as admin:
        selector = topic_selector(config)
        listed = admin.list_topics(deadline.remaining())
        refuse_hidden_sources(admin, selector, listed, "Describe")
        keys = partitions_of(selector.select(listed).copied)
        if not keys:
            raise ConfigError(f"{flow.name} selects no topics: change its topics", key="topics")
        first = admin.beginning_offsets(keys, deadline.remaining())
        end = admin.end_offsets(keys, deadline.remaining())
        if timestamp_ms is not None:
            young = admin.offsets_for_timestamp(keys, timestamp_ms, deadline.remaining())
            return [Start(*key, end[key] if young[key] < 0 else young[key]) for key in keys]
    given = _of_group(props, group, deadline) if group is not None else dict(offsets or {})
    if not given.keys() & set(keys):
        raise ConfigError(
            f"None of the given offsets belongs to a topic that {flow.name} copies: give "
            "offsets of its topics"
        )
    found = [Start(*key, given.get(key, first[key]), key in given) for key in keys]
    for each in found:
        key = (each.topic, each.partition)
        if not first[key] <= each.offset <= end[key]:
            raise ConfigError(
                f"{each.topic}-{each.partition} has the offsets {first[key]} to {end[key]}, and "
                f"{each.offset} is not among them: records would be lost or copied twice. Use "
                "--timestamp, or a file with an offset inside"
            )
    return found


def _of_group(
    props: Mapping[str, str], group: str, deadline: Deadline
) -> dict[TopicPartition, int]:
    with closing(ConsumerGroups(props)) as groups:
        answer = groups.committed([group], deadline)[group]
    if isinstance(answer, ConnectError):
        raise answer
    return {key: each.offset for key, each in answer.items() if each.offset is not None}


def store_starts(flow: DedicatedFlow, positions: list[Start], deadline: Deadline) -> None:
    """Store the positions; the flow continues there at its next start. A partition that begins at
    0 has no stored offset. Raises `ConfigError` if the flow runs, and `ConnectError`."""
    members = look_at_flow(flow).members
    if members:
        raise ConfigError(
            f"{flow.name} runs: its group {flow.group} has {len(members)} members. Stop them first"
        )
    config = flow.config
    store = KafkaOffsetStore(flow.offsets_topic, flow.client("start-offsets"), read_committed=True)
    try:
        store.start(deadline)
        write_offsets(
            store,
            config.name,
            [
                (
                    source_partition(config.source_cluster_alias, (each.topic, each.partition)),
                    {"offset": each.offset - 1} if each.offset > 0 else None,
                )
                for each in positions
            ],
            deadline,
        )
    finally:
        store.stop(Deadline(_CLOSE_S))
    forget_first_positions(config.originals, [(each.topic, each.partition) for each in positions])
