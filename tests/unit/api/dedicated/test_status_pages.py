"""The pages over real HTTP, by a real server on a port of its own."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http.client import HTTPConnection

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.http_server import ApiServer, ListenerUnavailable, parse_listener
from connect.errors import ConfigError
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import ConnectorStatus, TaskStatus
from connect.runtime.states import State, Status
from connectors.mirror.metrics import PartitionMetrics
from tests.support.flows.partition_metrics import show
from tests.support.ui.shown_flows import ShownFlows

_TIMEOUT_S = 30.0


class SlowWorker(ShownFlows):
    """Does not answer before `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.release = threading.Event(), threading.Event()

    def statuses(self) -> Mapping[str, Sequence[ConnectorStatus]]:
        self.asked.set()
        self.release.wait(1_000.0)  # longer than a test may take
        return {}


@pytest.fixture
def worker() -> ShownFlows:
    return ShownFlows()


@pytest.fixture
def server(worker: ShownFlows) -> Iterator[ApiServer]:
    with ApiServer(worker.app, "http://127.0.0.1:0") as server:
        yield server


def get(server: ApiServer, path: str) -> tuple[int, str, str]:
    """(status, content type, body)."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers["content-type"], answer.read().decode()
    finally:
        connection.close()


def status(state: str, trace: str | None = None) -> Status:
    return Status(State(state), "w", 0, trace)


def task(*partitions: PartitionHealth, state: str = "RUNNING") -> TaskStatus:
    return TaskStatus(0, status(state), partitions)


def connector(*tasks: TaskStatus, state: str = "RUNNING") -> ConnectorStatus:
    return ConnectorStatus("MirrorSourceConnector", status(state), tasks)


GOOD = PartitionHealth("orders", 0, lag_records=0, lag_ms=0, details={"state": "active"})
BAD = PartitionHealth("orders", 1, lag_records=None, lag_ms=None, error="it has no leader")


def test_the_metrics_page(worker: ShownFlows, server: ApiServer) -> None:
    metrics = PartitionMetrics("a", "b", "a.t", 0)
    metrics.acked(5, -1, 0)
    show(worker.metrics, metrics)

    status, content_type, body = get(server, "/metrics")

    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = {m.name: m.samples[0].value for m in text_string_to_metric_families(body)}
    assert found["kafka_connect_mirror_mirrorsourceconnector_record_count"] == 5
    assert "kafka_connect_mirror_source_connector_record_count" not in found


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [("gzip", True), ("deflate, gzip;q=0.5", True), ("*", True), ("gzip;q=0", False), ("", False)],
)
def test_the_metrics_page_is_compressed_for_clients_that_accept_it(
    worker: ShownFlows, server: ApiServer, accepted: str, compressed: bool
) -> None:
    show(worker.metrics, PartitionMetrics("a", "b", "a.t", 0))
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics", headers={"Accept-Encoding": accepted})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.headers.get("content-encoding") == ("gzip" if compressed else None)
    finally:
        connection.close()
    text = gzip.decompress(body) if compressed else body
    assert b"kafka_connect_mirror_mirrorsourceconnector_record_count{" in text


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.6,application/openmetrics-text;version=0.0.1"
    ";q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accepted", "open_metrics"),
    [
        (PROMETHEUS, True),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.9", False),
        ("application/openmetrics-text;q=often", False),
        ("text/html, */*;q=0.8", False),
        ("", False),
    ],
)
def test_the_metrics_page_is_openmetrics_for_clients_that_prefer_it(
    worker: ShownFlows, server: ApiServer, accepted: str, open_metrics: bool
) -> None:
    show(worker.metrics, PartitionMetrics("a", "b", "a.t", 0))
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics", headers={"Accept": accepted})
        answer = connection.getresponse()
        body = answer.read().decode()
        served = answer.headers["content-type"]
        assert "Accept" in answer.headers["vary"]
    finally:
        connection.close()
    assert served.startswith("application/openmetrics-text; version=1.0.0") == open_metrics
    assert body.endswith("# EOF\n") == open_metrics
    assert "kafka_connect_mirror_mirrorsourceconnector_record_count{" in body


def test_families_of_the_metrics_page(worker: ShownFlows, server: ApiServer) -> None:
    show(worker.metrics, PartitionMetrics("a", "b", "a.t", 0))

    only_b = get(server, "/metrics?family=b")[2]
    assert "kafka_connect_mirror_source_connector_record_count{" in only_b
    assert "mirrorsourceconnector" not in only_b
    assert get(server, "/metrics?family=B,A")[2].count("source_connector_record_count{") == 1
    assert get(server, "/metrics?family=B,A")[2].count("connector_record_count{") == 2
    status, _, body = get(server, "/metrics?family=Z")
    assert (status, json.loads(body)["error_code"]) == (400, 400)
    assert "Invalid value Z for family" in body


def test_health_names_what_is_not_well(worker: ShownFlows, server: ApiServer) -> None:
    worker.connectors = [connector(task(GOOD, BAD))]

    status, content_type, body = get(server, "/health")
    page = json.loads(body)

    assert (status, content_type) == (200, "application/json")
    assert page["status"] == "unhealthy"
    assert "a->b MirrorSourceConnector" in page["message"]
    shown = page["connectors"][0]
    assert (shown["state"], shown["healthy"]) == ("RUNNING", False)
    assert (shown["tasks"][0]["state"], shown["tasks"][0]["healthy"]) == ("RUNNING", False)
    good, bad = shown["tasks"][0]["partitions"]
    assert good == {
        "name": "orders-0", "lag_records": 0, "lag_ms": 0, "error": None,
        "details": {"state": "active", "time_to_loss_ms": None},
    }  # fmt: skip
    assert (bad["name"], bad["error"], bad["lag_records"]) == ("orders-1", "it has no leader", None)


def test_health_says_what_waits_because_of_a_limit(worker: ShownFlows, server: ApiServer) -> None:
    limited = [
        PartitionHealth("logs", n, 100, 5000, details={"limited_by": "mirror.rate.topics"})
        for n in range(2)
    ]
    worker.connectors = [connector(task(*limited, GOOD))]
    body = json.loads(get(server, "/health")[2])
    assert body["status"] == "healthy"
    assert body["message"].endswith("are healthy; 2 partitions wait because of mirror.rate.topics")


def test_health_says_that_records_were_lost(worker: ShownFlows, server: ApiServer) -> None:
    lost = PartitionHealth("logs", 0, 0, 0, details={"lost_lately": True})
    kept = PartitionHealth("logs", 1, 0, 0, details={"lost_lately": False})
    worker.connectors = [connector(task(lost, kept, GOOD))]
    body = json.loads(get(server, "/health")[2])
    assert body["status"] == "healthy"  # nothing is broken now
    assert "; records of 1 partition were lost in the last 24 hours" in body["message"]


def test_health_and_the_dashboard_name_a_clock_that_is_wrong(
    worker: ShownFlows, server: ApiServer
) -> None:
    early = [
        PartitionHealth("logs", n, 0, 0, details={"timestamps_ahead_ms": 3_600_000 - n})
        for n in range(2)
    ]
    worker.connectors = [connector(task(*early, GOOD))]
    sentence = "records of 2 partitions have timestamps up to 3600 s later than the worker's clock"

    body = json.loads(get(server, "/health")[2])
    assert body["status"] == "healthy"  # what is copied is right
    assert sentence in body["message"]
    (flow,) = json.loads(get(server, "/mirrors")[2])["flows"]
    assert (flow["health"], sentence in flow["why"]) == ("ok", True)
    lag = json.loads(get(server, "/mirrors/a-%3Eb/lag")[2])["partitions"]
    assert [each["timestamps_ahead_seconds"] for each in lag] == [3600.0, 3599.999, None]


def test_health_shows_which_engine_computes_each_job(worker: ShownFlows, server: ApiServer) -> None:
    reason = "process: the copies of this process have not caught up yet"
    for name, engine in (("Config sync of a->b", reason), ("ACL sync of a->b", "")):
        values = {"status": "idle", "engine": engine, "run-count": 1.0}
        worker.metrics.register("spark-job-metrics", {"job": name}, partial(dict, values))
    show(worker.metrics, PartitionMetrics("a", "b", "a.t", 0))

    assert json.loads(get(server, "/health")[2])["jobs"] == [
        {"name": "Config sync of a->b", "engine": reason, "status": "idle"},
        {"name": "ACL sync of a->b", "engine": None, "status": "idle"},
    ]


def test_health_says_why_a_connector_failed(worker: ShownFlows, server: ApiServer) -> None:
    worker.connectors = [ConnectorStatus("c", status("FAILED", "no topics property"), ())]

    shown = json.loads(get(server, "/health")[2])["connectors"][0]
    assert shown == {
        "flow": "a->b", "name": "c", "state": "FAILED", "worker_id": "w", "healthy": False,
        "trace": "no topics property", "tasks": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "healthy"),
    [
        (connector(task(GOOD)), True),
        (connector(task(GOOD, state="PAUSED")), True),
        (ConnectorStatus("c", status("RUNNING", "it cannot list topics"), ()), False),
        (connector(TaskStatus(0, status("RUNNING", "its offsets are not stored"), (GOOD,))), False),
        (connector(), True),
        (connector(task(BAD)), False),
        (connector(task(state="FAILED")), False),
        (connector(task(state="UNASSIGNED")), False),
        (connector(state="FAILED"), False),
    ],
)
def test_what_counts_as_healthy(shown: ConnectorStatus, healthy: bool) -> None:
    assert shown.is_healthy is healthy


def test_a_process_lives_before_its_flows_are_ready(worker: ShownFlows, server: ApiServer) -> None:
    worker.reasons = {"a->b": "Cannot reach cluster b at b:9092: connection refused"}
    assert get(server, "/health/live")[0] == 200
    status, _, body = get(server, "/health/ready")
    assert status == 503
    assert json.loads(body)["flows"] == worker.reasons
    assert "connection refused" in json.loads(body)["message"]

    worker.reasons = {}
    assert get(server, "/health/ready")[0] == 200


def test_health_is_brief_on_request(worker: ShownFlows, server: ApiServer) -> None:
    worker.connectors = [connector(task(GOOD))]
    assert set(json.loads(get(server, "/health?verbose=false")[2])) == {"status", "message"}
    assert "connectors" in json.loads(get(server, "/health?verbose")[2])


def test_the_root_page_and_a_page_that_is_not_there(server: ApiServer) -> None:
    status, _, body = get(server, "/")

    assert status == 200
    assert json.loads(body)["name"] == "kafka-connect-mirror"
    assert get(server, "/nothing")[0] == 404


def test_a_taken_port_is_known_at_start_and_named(worker: ShownFlows, server: ApiServer) -> None:
    second = ApiServer(worker.app, f"http://127.0.0.1:{server.port}", key="metrics.listener")
    try:
        with pytest.raises(ListenerUnavailable) as caught:
            second.start()
    finally:
        second.stop()

    for word in (str(server.port), "taken", "metrics.listener"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("listener", "address"),
    [
        ("http://127.0.0.1:8083", ("127.0.0.1", 8083)),
        ("HTTP://:8083/", ("", 8083)),
        ("http://[::1]:0", ("::1", 0)),
    ],
)
def test_listeners(listener: str, address: tuple[str, int]) -> None:
    assert parse_listener(listener) == address


@pytest.mark.parametrize(
    "listener", ["", "8083", "localhost:8083", "https://h:1", "http://h", "http://h:99999"]
)
def test_a_listener_that_is_none_gets_an_error_with_key_and_value(listener: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ApiServer(lambda: pytest.fail("not needed"), listener, key="rest.listener")

    assert f"Invalid value {listener} for configuration rest.listener" in str(caught.value)


def test_the_application_is_not_made_until_somebody_connects() -> None:
    server = ApiServer(lambda: pytest.fail("nobody asked"), "http://127.0.0.1:0").start()

    server.stop()
    assert not is_listening(server)


def test_stop_frees_the_port_and_closes_connections_that_are_open(worker: ShownFlows) -> None:
    server = ApiServer(worker.app, "http://127.0.0.1:0").start()
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_S)
    connection.request("GET", "/")
    connection.getresponse().read()

    server.stop()
    assert not is_listening(server)
    assert connection.sock.recv(1) == b""
    connection.close()
    server.stop()


def is_listening(server: ApiServer) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", server.port)) == 0


def test_stop_cuts_off_an_answer_that_does_not_come() -> None:
    worker = SlowWorker()
    server = ApiServer(worker.app, "http://127.0.0.1:0").start()
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT_S)
    connection.request("GET", "/health")
    assert worker.asked.wait(_TIMEOUT_S)

    server.stop()
    worker.release.set()
    connection.close()


def test_a_stop_without_a_start_is_fine(worker: ShownFlows) -> None:
    stop: Callable[[], None] = ApiServer(worker.app, "http://127.0.0.1:0").stop
    stop()
