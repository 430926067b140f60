"""A worker's one exactly-once task as a program, to be killed: reads a file's lines into a topic.

Arguments: the cluster's addresses, the group, the file, the topic, the offsets topic, and after how
many milliseconds it ends a transaction. SIGTERM ends it. Nobody fences for it but its own claim of
the transactional id.
"""

from __future__ import annotations

import signal
import sys

from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.metrics.registry import MetricRegistry
from connect.runtime.offset_stores import task_transactional_id
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.states import InstanceId
from connect.runtime.worker import Worker
from connectors.files.plugins import register
from connectors.files.source import FileStreamSourceTask

_STRINGS = "org.apache.kafka.connect.storage.StringConverter"


def main() -> None:
    servers, group, file, topic, offsets_topic, interval_ms = sys.argv[1:]
    plugins = PluginRegistry(discover=False)
    register(plugins)
    properties = {
        "bootstrap.servers": servers,
        "group.id": group,
        "offset.storage.topic": offsets_topic,
        "offset.storage.partitions": "1",
        "offset.storage.replication.factor": "1",
        "key.converter": _STRINGS,
        "value.converter": _STRINGS,
        "file.connectors.root": "/",
    }
    worker = Worker(
        WorkerConfig.from_properties(properties),
        plugins,
        MetricRegistry(),
        worker_id="killed",
        exactly_once=True,
    )
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    worker.start(Deadline(30))
    task = InstanceId("lines", 0)
    config = {
        "name": task.connector,
        "connector.class": "FileStreamSource",
        "file": file,
        "topic": topic,
        "batch.size": "50",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": interval_ms,
    }
    plan = ExactlyOncePlan(task_transactional_id(group, task), lambda: None, lambda: None)
    host = worker.make_task(
        task, FileStreamSourceTask, config, config, paused=False, exactly_once=plan
    )
    host.start()
    signal.sigwait({signal.SIGTERM})
    deadline = Deadline(10)
    host.request_stop(deadline)
    host.join(deadline)
    worker.stop(Deadline(5))


if __name__ == "__main__":
    main()
