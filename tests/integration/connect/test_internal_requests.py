"""Requests between the workers of a group, as somebody sends them who has recorded one."""

from __future__ import annotations

from pathlib import Path

from deploy.brokers import KafkaCluster
from tests.support.records.topics import create_topic, unique
from tests.support.rest import Answer, call
from tests.support.workers.distributed import file_source, worker_group
from tests.support.workers.java_connect import worker_properties
from tests.support.workers.session_keys import next_key, signed

KEY_LIVES_MS = 20_000
KEY_S = 90.0


def test_a_recorded_request_to_fence_is_refused_once_the_key_was_replaced(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    servers, name = target_cluster.bootstrap_servers, unique("replayed")
    properties = {
        **worker_properties(servers, name),
        "exactly.once.source.support": "enabled",
        "inter.worker.key.ttl.ms": str(KEY_LIVES_MS),
        "session.timeout.ms": "30000",
    }
    topic, file = create_topic(servers, "replayed"), tmp_path / "lines.txt"
    file.touch()
    with worker_group(1, properties, tmp_path, logs) as group:
        url = group.first.url

        def fence(headers: dict[str, str]) -> Answer:
            return call(url, "PUT", f"/connectors/{name}/fence", None, headers)

        group.create(name, file_source(topic, file))
        group.until_running(name, tasks=1)
        old = next_key(servers, f"{name}-configs", KEY_S)
        # A key that is about to be replaced would make the next line fail.
        old = next_key(servers, f"{name}-configs", KEY_S, after=old)
        recorded = signed(old)
        assert fence(recorded).status == 204
        next_key(servers, f"{name}-configs", KEY_S, after=old)

        def refused() -> Answer | None:
            answer = fence(recorded)
            return None if answer.status == 204 else answer

        answer = group.until(refused, "the worker to read the new key")
        assert answer.error == (403, "Internal request contained invalid signature.")
        assert fence({}).error == (400, "Internal request missing required signature")
