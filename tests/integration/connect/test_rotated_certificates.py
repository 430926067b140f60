"""A worker group whose brokers, and whose own key and trust stores, get certificates of another
authority: sink tasks, tasks that write exactly once and the leader go on without a restart."""

from __future__ import annotations

from pathlib import Path

from deploy.brokers import KafkaRuntime
from tests.support.records.topics import create_topic, unique
from tests.support.security.rotated import Rotated
from tests.support.waiting import wait_until
from tests.support.workers.distributed import file_source, worker_group
from tests.support.workers.java_connect import worker_properties

WAIT_S = 120.0
FIRST = [f"before {number}" for number in range(50)]
SECOND = [f"after {number}" for number in range(50)]


def test_lines_pass_once_from_a_source_task_to_a_sink_task(
    kafka: KafkaRuntime, session_logs: Path, logs: Path, tmp_path: Path
) -> None:
    (tmp_path / "stores").mkdir()
    rotated = Rotated(tmp_path / "stores", kafka, session_logs)
    given, taken = tmp_path / "given.txt", tmp_path / "taken.txt"
    given.write_text("".join(f"{line}\n" for line in FIRST))

    def arrived(lines: list[str]) -> bool:
        return taken.exists() and len(taken.read_text().splitlines()) >= len(lines)

    with rotated.cluster as cluster:
        topic = create_topic(cluster.bootstrap_servers, "lines")
        secure = rotated.properties
        properties = {
            **worker_properties(secure["bootstrap.servers"], unique("rotated")),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "exactly.once.source.support": "enabled",
            **secure,
            **{
                f"{side}.{key}": value
                for side in ("producer", "consumer", "admin")
                for key, value in secure.items()
                if key != "bootstrap.servers"
            },
            "consumer.isolation.level": "read_committed",
        }
        with worker_group(1, properties, tmp_path, logs) as group:
            source, sink = unique("source"), unique("sink")
            sink_config = {"connector.class": "FileStreamSink", "file": str(taken), "topics": topic}
            group.create(source, file_source(topic, given))
            group.create(sink, sink_config)
            wait_until(lambda: arrived(FIRST), WAIT_S, "the lines of the first certificates")

            rotated.rotate_and_restart()
            with given.open("a") as more:
                more.writelines(f"{line}\n" for line in SECOND)
            wait_until(lambda: arrived(FIRST + SECOND), WAIT_S, "the lines of the new certificates")
            assert taken.read_text().splitlines() == FIRST + SECOND
            for name in (source, sink):
                group.until_running(name, 1)
            # The leader writes to the config topic in a transaction.
            group.create(unique("later"), {**sink_config, "file": str(tmp_path / "later.txt")})
