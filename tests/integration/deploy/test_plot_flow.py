"""The example that draws a flow, on a flow that ran: the picture is there, with its lines."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.steady import SteadyWriter
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("matplotlib") is None, reason="the extra `examples` is not there"
    ),
]

ROUNDS = 600
"""Of SteadyWriter: twenty seconds or more, so some windows of the example."""


def test_a_flow_is_drawn_with_a_line_for_each_topic(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topics = [flow.topic("plain", partitions=2), flow.topic("transactional"), flow.topic("keyed")]
    history = {"mirror.history.url": f"sqlite:///{tmp_path}/history.db"}
    properties = flow.properties(history)
    log = logs / "mirror.log"
    with running(properties, tmp_path, log) as mirror:
        with SteadyWriter(flow.source_servers, *topics) as writer:
            wait_until(lambda: writer.rounds >= ROUNDS, 120.0, "some windows of records")
        stop_cleanly(mirror, log)
    pictures = [logs / "flow.svg", logs / "flow.png"]

    for picture in pictures:
        drawn = subprocess.run(
            [
                sys.executable, "-m", "deploy.examples.plot_flow",
                str(properties_file(properties, tmp_path)), str(picture), f"{flow.a}->{flow.b}",
            ],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )  # fmt: skip
        assert drawn.returncode == 0, drawn.stderr
        assert f"Plotted to {picture}" in drawn.stdout
        assert "Traceback" not in drawn.stderr

    svg, png = (picture.read_bytes() for picture in pictures)
    assert png.startswith(b"\x89PNG")
    for title in ("Lag in seconds", "Throughput in MB/s", "Failover readiness"):
        # Text is drawn as paths; the words are beside them.
        assert f"<!-- {title} -->".encode() in svg
    for topic in topics:
        assert f"<!-- {topic} -->".encode() in svg
