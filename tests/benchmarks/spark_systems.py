"""The ways to copy a topic that are compared for Spark, in the terms of the other benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from deploy.brokers import GuardedProcess, KafkaRuntime
from deploy.spark_cluster import SparkCluster
from tests.benchmarks.plain_spark import TUNED
from tests.benchmarks.systems import OURS, SYSTEMS, System
from tests.support.flows.backfills import properties_file
from tests.support.spark.session import SMALL_EXECUTORS
from tests.support.waiting import wait_until

__all__ = [
    "BACKFILL",
    "PLAIN",
    "PLAIN_TUNED",
    "SPARK",
    "SPARK_FIELD",
    "SPARK_SELECT",
    "WORKER",
    "WORKER_FIELD",
    "SparkSystems",
    "spark_systems",
]

WORKER, SPARK, BACKFILL = "worker", "spark", "backfill"
SPARK_SELECT, WORKER_FIELD, SPARK_FIELD = "spark-select", "worker-field", "spark-field"
PLAIN, PLAIN_TUNED = "plain", "plain-tuned"
_IDLE_S = 60.0

_SELECT = {
    "mirror.transform": "SELECT topic, partition, offset, "
    "concat(CAST(value AS STRING), '') AS value FROM records"
}
"""The same value, so that the copy's contents are compared."""

_FIELD = {
    "transforms": "from",
    "transforms.from.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.from.static.field": "from",
    "transforms.from.static.value": "A",
    "mirror.transforms.value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "mirror.transforms.value.converter.schemas.enable": "false",
}


class SparkSystems:
    """The systems by name, and the standalone cluster that some of them run on."""

    def __init__(self, systems: Mapping[str, System], cluster: SparkCluster | None) -> None:
        self.systems = systems
        self._cluster = cluster

    def wait_idle(self) -> None:
        """Until no executor of an earlier run is left."""
        cluster = self._cluster
        if cluster is not None:
            wait_until(lambda: not cluster.executors(), _IDLE_S, "the end of executors")


def _on_spark(more: Mapping[str, str]) -> Callable[[str, str], Mapping[str, str]]:
    return lambda _alias, _codec: {"mirror.engine": "spark", **more}


def _changed(
    changes: Mapping[str, str], more: Mapping[str, str]
) -> Callable[[str, str], Mapping[str, str]]:
    """Properties of a flow that changes its records."""
    return lambda alias, _codec: {
        **more,
        **{f"{alias}->target.{key}": value for key, value in changes.items()},
    }


def _plain(master: str, *, tuned: bool) -> Callable[[str, str], Mapping[str, str]]:
    return lambda _alias, codec: {
        "spark.master": master,
        "target.producer.compression.type": codec,
        TUNED: str(tuned).lower(),
    }


def _program(
    command: Sequence[str], properties: Mapping[str, str], directory: Path, log: Path
) -> GuardedProcess:
    directory.mkdir(parents=True, exist_ok=True)
    return GuardedProcess([*command, str(properties_file(properties, directory))], log)


def _start_backfill(
    _kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> GuardedProcess:
    script = str(Path(sys.executable).with_name("connect-mirror-backfill"))
    return _program([script], properties, directory, log)


def _start_plain(
    _kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> GuardedProcess:
    module = [sys.executable, "-m", "tests.benchmarks.plain_spark"]
    return _program(module, properties, directory, log)


@contextmanager
def spark_systems(
    cores: int, executors: Sequence[int], wanted: Sequence[str], logs: Path
) -> Iterator[SparkSystems]:
    """Those of the systems that are wanted; all where none is. `cores`: of `local[...]`;
    `executors`: of one core each, on a standalone cluster, which runs within the block."""
    worker, master = SYSTEMS[OURS], f"local[{cores}]"
    found = {
        WORKER: replace(worker, name=WORKER, words="copied by the worker"),
        SPARK: replace(
            worker,
            name=SPARK,
            words=f"copied on Spark, `{master}`",
            tuning=_on_spark({"spark.master": master}),
        ),
    }
    on_spark = {"mirror.engine": "spark", "spark.master": master}
    for name, words, changes, more in (
        (SPARK_SELECT, f"Spark, `{master}`, values by a SELECT", _SELECT, on_spark),
        (WORKER_FIELD, "the worker, a field of JSON added by an SMT", _FIELD, {}),
        (SPARK_FIELD, f"Spark, `{master}`, the same SMT", _FIELD, on_spark),
    ):
        found[name] = replace(
            worker,
            name=name,
            words=f"copied by {words}",
            tuning=_changed(changes, more),
            keeps_values=changes is not _FIELD,
        )
    clusters = {f"cluster-{count}": count for count in executors}
    with ExitStack() as stack:
        cluster: SparkCluster | None = None
        if any(name in clusters for name in wanted or clusters):
            cluster = stack.enter_context(SparkCluster(max(executors), logs=logs))
            for name, count in clusters.items():
                on = {"spark.master": cluster.url, "spark.cores.max": str(count), **SMALL_EXECUTORS}
                found[name] = replace(
                    worker,
                    name=name,
                    words=f"copied on Spark, standalone cluster, {count} "
                    f"executor{'s' if count > 1 else ''} of one core",
                    tuning=_on_spark(on),
                    beside=lambda cluster=cluster: cluster.pids,  # type: ignore[misc]
                )
        found[BACKFILL] = replace(
            worker,
            name=BACKFILL,
            words=f"backfill on Spark, `{master}`",
            start=_start_backfill,
            tuning=lambda _alias, _codec: {"spark.master": master},
            ends=True,
        )
        for name, tuned in ((PLAIN, False), (PLAIN_TUNED, True)):
            found[name] = System(
                name,
                f"plain Spark, Kafka to Kafka, {'tuned' if tuned else 'default'}, `{master}`",
                _start_plain,
                _plain(master, tuned=tuned),
                keeps_times=False,
            )
        chosen = {name: found[name] for name in found if not wanted or name in wanted}
        yield SparkSystems(chosen, cluster)
