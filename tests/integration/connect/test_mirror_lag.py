"""`GET /mirrors/{flow}/lag` of two Connect workers that share the tasks of a flow."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow
from tests.support.flows.worker_flow import worker_flow
from tests.support.records.producing import numbered, produce
from tests.support.rest import call
from tests.support.waiting import wait_until

PARTITIONS, RECORDS = 4, 2000
# Far fewer than wait, so that partitions stay behind while the test asks; and small batches, so
# that each partition gets its turn soon.
LIMIT, BATCH = {"mirror.rate.records": "20"}, 5
TASKS = {"tasks.max": str(PARTITIONS)}


def test_each_worker_tells_the_lag_of_all_partitions(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic("orders", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(
            flow.source_servers, topic, numbered(RECORDS, partition=partition), batch_records=BATCH
        )
    with worker_flow(flow, logs, tmp_path, "disabled", {**LIMIT, **TASKS}) as running:
        running.group.until_running(running.name, tasks=PARTITIONS)

        def lag(url: str) -> Any:
            return call(url, "GET", f"/mirrors/{flow.a}-%3E{flow.b}/lag").json()

        def behind(url: str) -> list[dict[str, Any]] | None:
            """The partitions, once all are copied from and on both workers."""
            found = lag(url)
            partitions: list[dict[str, Any]] = found["partitions"]
            measured = all(each["bytes"] is not None for each in partitions)
            workers = {each["worker_id"] for each in partitions}
            complete = found["incomplete"] == [] and len(partitions) == PARTITIONS
            return partitions if complete and measured and len(workers) == 2 else None

        first, second = running.group.workers
        for worker in (first, second):
            found = wait_until(partial(behind, worker.url), 60, "the lag of all partitions")
            assert found is not None
            assert [(each["topic"], each["partition"]) for each in found] == [
                (topic, number) for number in range(PARTITIONS)
            ]
            assert {each["worker_id"] for each in found} == {first.worker_id, second.worker_id}
            assert {each["connector"] for each in found} == {running.name}
            for each in found:
                assert 0 < each["records"] <= RECORDS
                assert each["bytes"] > each["records"]
                assert each["error"] is None
        asked = call(first.url, "GET", f"/mirrors/{flow.b}-%3E{flow.a}/lag")
        assert asked.error == (
            404,
            f"There is no flow {flow.b}->{flow.a}; flows: {flow.a}->{flow.b}",
        )
        without = {key: value for key, value in running.config.items() if key not in LIMIT}
        running.group.accepted("PUT", f"/connectors/{running.name}/config", without)
        flow.wait_records(topic, [RECORDS] * PARTITIONS)

        def caught_up() -> bool:
            shown = [
                (each["records"], each["seconds"], each["bytes"])
                for each in lag(second.url)["partitions"]
            ]
            return shown == [(0, 0, 0)] * PARTITIONS

        wait_until(caught_up, 60, "no lag")
        second.kill()
        (missing,) = lag(first.url)["incomplete"]
        assert (missing["worker_id"], missing["connector"]) == (second.worker_id, running.name)
        assert len(missing["tasks"]) == PARTITIONS // 2
        assert missing["reason"].startswith(f"Worker {second.worker_id} cannot be asked: ")
