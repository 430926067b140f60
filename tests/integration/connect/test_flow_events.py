"""`GET /mirrors/{flow}/events` of a Connect worker: a failed task and its cause; who paused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow
from tests.support.flows.worker_flow import worker_flow
from tests.support.rest import call
from tests.support.waiting import wait_until

WAIT_S = 60.0


def test_the_events_name_a_failed_task_with_its_cause_and_who_paused_the_flow(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    flow.topic("orders")
    history = f"sqlite:///{tmp_path / 'history.db'}"
    values = tmp_path / "values.properties"
    values.write_text("rack = east\n")
    worker = {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "mirror.history.allowed.urls": history,
    }
    config = {
        "mirror.history.url": history,
        "tasks.max": "1",
        "source.consumer.client.rack": f"${{file:{values}:rack}}",
    }
    with worker_flow(flow, logs, tmp_path, "disabled", config, worker) as running:
        running.group.until_running(running.name, tasks=1)
        url = running.group.first.url

        def found(kind: str) -> list[dict[str, Any]]:
            events = call(url, "GET", f"/mirrors/{flow.a}-%3E{flow.b}/events").json()["events"]
            return [each for each in events if each["kind"] == kind]

        values.unlink()
        restart = running.group.call("POST", f"/connectors/{running.name}/tasks/0/restart")
        assert restart.status == 500, restart.body
        wait_until(lambda: found("task.failed"), WAIT_S, "the event of the failed task")
        (failed,) = found("task.failed")
        assert failed["text"].startswith(f"Task 0 of {running.name} failed: ConfigError: ")
        assert str(values) in failed["text"]

        running.group.accepted("PUT", f"/connectors/{running.name}/pause")
        paused = f"PUT /connectors/{running.name}/pause"
        texts = wait_until(
            lambda: [each["text"] for each in found("changed") if each["text"].endswith(paused)],
            WAIT_S,
            "the event of the pause",
        )
        assert texts is not None
        assert "127.0.0.1" in texts[0]
