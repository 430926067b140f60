"""Interfaces that plugin authors implement, and contexts that the worker passes to plugins.

A plugin has a `Connector`, which divides the work into task configs, and a task class, which does
the work. There are two kinds of source tasks, and sink tasks (`SinkTask`):

* `SourceTask` (record task): `poll()` returns records. The worker converts and produces them,
  tracks which were acknowledged, and stores their source offsets.
* `TransferTask`: the task copies the data itself. The worker provides its thread, lifecycle,
  stored offsets, status and metrics. It calls `step()` repeatedly, and `prepare_commit()` whenever
  source offsets are due.

The worker calls a connector's methods on the connector's own thread, and a task's methods on the
task's own thread, unless the docstring says otherwise. All configs here are flat maps of strings
with Java's key names, already resolved by config providers.
"""

from __future__ import annotations

from connect.data.record import (
    Header,
    OffsetValue,
    SinkRecord,
    SourceOffset,
    SourcePartition,
    SourceRecord,
)
from connect.plugin.connector import Connector, SinkConnector
from connect.plugin.contexts import (
    ConnectorContext,
    RawRecord,
    RecordTransform,
    RecordTransforms,
    TaskContext,
    TransactionContext,
    TransferTransactions,
)
from connect.plugin.sink_task import ErrantRecordReporter, SinkTask, SinkTaskContext
from connect.plugin.source_task import RecordMetadata, SourceTask
from connect.plugin.stored import OFFSET_NOTE, AlteredOffset, StoredOffset
from connect.plugin.transfer_task import PartitionHealth, TransferCounts, TransferTask
from connect.topic_partition import TopicPartition

__all__ = [
    "OFFSET_NOTE",
    "AlteredOffset",
    "Connector",
    "ConnectorContext",
    "ErrantRecordReporter",
    "Header",
    "OffsetValue",
    "PartitionHealth",
    "RawRecord",
    "RecordMetadata",
    "RecordTransform",
    "RecordTransforms",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceOffset",
    "SourcePartition",
    "SourceRecord",
    "SourceTask",
    "StoredOffset",
    "TaskContext",
    "TopicPartition",
    "TransactionContext",
    "TransferCounts",
    "TransferTask",
    "TransferTransactions",
]
