"""What a plugin writer implements, and what the worker hands to it.

A plugin is a `Connector` that cuts its work into task configs, and a task class that does the work.
There are two kinds of source tasks, and one of sink tasks (`SinkTask`):

* `SourceTask` (record task): `poll()` returns records; the worker converts and produces them,
  tracks which were acknowledged, and stores their source offsets.
* `TransferTask`: the task moves the bytes itself. The worker gives it a thread, lifecycle,
  stored offsets, status and metrics, and calls it in turns: `step()` again and again, and
  `prepare_commit()` whenever source offsets are due.

Every method of a connector is called on the connector's own thread, every method of a task on the
task's own thread, unless its docstring says otherwise. All configs here are flat maps of strings,
already resolved through config providers, with Java's key names.
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
    "RecordMetadata",
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
