"""Deletes stored start positions when a user alters or resets the flow's source offsets.

If the offsets are in a topic, tasks detect that an offset was set or deleted. They cannot if the
offsets are in a database, or for a partition that had no offset when all were reset. Runs on the
thread of the request, waits a few seconds at most, and a failure does not reject the request.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import wait
from contextlib import closing

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.factory import producer
from connect.clock import Deadline
from connect.errors import ConfigError, ConnectError, DeadlineExceeded
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.clients import offset_syncs_admin, offset_syncs_producer
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.offsets.map_notes import Note, note_key
from connectors.mirror.offsets.offset_sync_producer import OffsetSyncProducer
from connectors.mirror.offsets.start_positions import FORGET_ALL, FORGET_ALL_VALUE, NOWHERE
from connectors.mirror.replication_policy import offset_topics

__all__ = ["forget_first_positions"]

_LOG = logging.getLogger(__name__)

_WITHIN_S = 5.0
_TURN_S = 0.01

Records = list[tuple[bytes, bytes | None]]


def forget_first_positions(
    props: Mapping[str, str], keys: Collection[TopicPartition] | None
) -> None:
    """Delete start positions. `props`: the connector's properties. `keys`: the partitions; None:
    all."""
    try:
        config = SourceConfig.from_properties(props)
    except ConfigError:
        return  # No task can have started with an invalid config, so no start position is stored.
    if not config.mirror_offset_map_enabled or (keys is not None and not keys):
        return
    topic = offset_topics(props).map
    records: Records = [(FORGET_ALL, FORGET_ALL_VALUE)]
    if keys is not None:
        notes = [note_key(Note.START, key) for key in keys]
        records = [(note, value) for note in notes for value in (NOWHERE.encode(), None)]
    try:
        _write(props, topic, records, Deadline(_WITHIN_S))
    except ConnectError as error:
        _LOG.warning(
            "Cannot delete the start positions of partitions without a stored offset from topic "
            "%s: %s. These partitions may continue at their earlier start positions",
            topic,
            error,
        )


def _write(props: Mapping[str, str], topic: str, records: Records, deadline: Deadline) -> None:
    with closing(Admin(offset_syncs_admin(props))) as admin:
        # A producer would make the brokers create the topic.
        if topic not in admin.describe_topics([topic], deadline.remaining()):
            return
    writer = OffsetSyncProducer(producer(offset_syncs_producer(props)), "", topic)
    try:
        written = writer.write_pages(records)
        while not written.done():
            if deadline.expired():
                raise DeadlineExceeded("the write took too long")
            writer.poll()
            wait([written], _TURN_S)
        written.result(timeout=0)
    finally:
        writer.close(Deadline(0))
