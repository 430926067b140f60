"""The log as JSON of a process with two flows, whose connectors and tasks have the same names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.producing import numbered, produce

COUNT = 20
TASK_THREAD = re.compile(r"task-(?P<connector>.+)-(?P<task>\d+)")


def test_lines_of_connectors_and_tasks_name_them_and_their_flow(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    there = MirroredFlow(source_cluster, target_cluster)
    back = MirroredFlow(target_cluster, source_cluster, there.prefix, there.b, there.a)
    for flow in (there, back):
        produce(flow.source_servers, flow.topic(), numbered(COUNT))
    properties = {**back.properties(), **there.properties()}
    log = logs / "mirror.log"
    with running(properties, tmp_path, log, "--log-format", "json") as mirror:
        for flow in (there, back):
            flow.wait_records(f"{flow.prefix}.t", [COUNT])
        stop_cleanly(mirror, log)

    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    flows = {f"{there.a}->{there.b}", f"{there.b}->{there.a}"}
    seen: set[tuple[str, str]] = set()
    for line in lines:
        task = TASK_THREAD.fullmatch(line["thread"])
        if task is not None:
            assert line["flow"] in flows, line
            assert (line["connector"], line["task"]) == (task["connector"], int(task["task"])), line
            seen.add(("task", line["flow"]))
        elif line["thread"].startswith("connector-"):
            assert line["flow"] in flows, line
            assert line["thread"] == f"connector-{line['connector']}", line
            assert "task" not in line, line
        elif line["thread"] == "distributed-herder":
            assert line["flow"] in flows, line
            seen.add(("herder", line["flow"]))
    assert seen == {(what, flow) for what in ("task", "herder") for flow in flows}
