"""A peer of the copy on Spark: a topic read by Spark's Kafka source and written by its Kafka sink.

    python -m tests.benchmarks.plain_spark mm2.properties

What its documentation shows, as a streaming query: partitions, keys, values, headers and order are
kept; timestamps are not, because the sink has no column for them. `plain.tuned` sets what makes it
faster and keeps the order. At least once. No topic discovery, no offset translation, no metrics.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import functions as F

from connect.config.properties import load_properties
from connectors.spark.program_session import own_session
from tests.support.records.topics import create_topic, end_offsets

__all__ = ["TUNED", "main"]

TUNED = "plain.tuned"
"""The property that asks for the faster form."""
_POLL_S = 0.2
# The session's defaults are for a worker beside a copy: one collector thread, the first compiler.
_OWN_JVM = "-XX:-UseSerialGC -XX:+UseG1GC -XX:TieredStopAtLevel=4"
_READ_TUNED = {
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.bytes": "67108864",
    "kafka.fetch.min.bytes": "1048576",
    "kafka.receive.buffer.bytes": "-1",
    "kafka.max.poll.records": "5000",
}
_WRITE_TUNED = {
    "kafka.batch.size": "262144",
    "kafka.linger.ms": "20",
    "kafka.buffer.memory": "134217728",
    "kafka.max.request.size": "8388608",
    "kafka.send.buffer.bytes": "-1",
}


def main(path: Path) -> None:
    """Copy until SIGTERM."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    properties = load_properties(path)
    session_properties = {
        "spark.driver.extraJavaOptions": _OWN_JVM,
        **{key: value for key, value in properties.items() if key.startswith("spark.")},
    }
    with own_session("plain Spark", session_properties, kafka=True) as session:
        alias = properties["clusters"].split(",")[0].strip()
        source = properties[f"{alias}.bootstrap.servers"]
        target = properties["target.bootstrap.servers"]
        topic = properties[f"{alias}->target.topics"]
        remote = f"{alias}.{topic}"
        create_topic(target, name=remote, partitions=len(end_offsets(source, topic)))
        tuned = properties.get(TUNED) == "true"
        codec = properties["target.producer.compression.type"]
        written: Mapping[str, str] = (
            {**_WRITE_TUNED, "kafka.compression.type": codec} if tuned else {}
        )
        rows = (
            session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", source)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .options(**(_READ_TUNED if tuned else {}))
            .load()
            .select(F.lit(remote).alias("topic"), "partition", "key", "value", "headers")
        )
        with tempfile.TemporaryDirectory(prefix="plain-spark-") as checkpoint:
            query = (
                rows.writeStream.format("kafka")
                .option("kafka.bootstrap.servers", target)
                .option("checkpointLocation", checkpoint)
                .options(**written)
                .start()
            )
            while not stopped.wait(_POLL_S):
                if not query.isActive:
                    raise RuntimeError(f"The query has ended: {query.exception()}")
            query.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
