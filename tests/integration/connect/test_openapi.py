"""What `/openapi.json` describes, asked of a standalone worker with all kinds of good and bad
input: whatever comes is answered, and every failure in Kafka Connect's shape."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from api.rest.server import RestServer
from connect.metrics.registry import MetricRegistry
from deploy.brokers import KafkaCluster
from tests.support.workers.bench import Bench

TIMEOUT_S = 30.0
# Half a minute of making examples: minutes where the machine is busy.
pytestmark = pytest.mark.timeout(600)
# Java's worker, too, answers what it cannot read, and what only groups do, with 500.
_JAVAS_500 = re.compile(
    r"request body|[Oo]ffset|JSON|contains no connector type|initial_state|must be|config"
    r"|standalone mode|is needed|Unrecognized|null"
)
_TRACES = re.compile(r"Traceback|File \"|line \d+, in |0x[0-9a-f]{6}")


@pytest.fixture(scope="module")
def worker(target_cluster: KafkaCluster) -> Iterator[tuple[str, str]]:
    """The URL of a worker, and the name of a connector that it runs."""
    bench = Bench(target_cluster)
    server = RestServer({"listeners": "http://127.0.0.1:0"}, MetricRegistry(), {})
    server.bind()
    server.start()
    try:
        bench.put("RecordLane", "lanes")
        server.herder_started(bench.herder)
        server.worker_ready()
        yield server.advertised_url.rstrip("/"), "lanes"
    finally:
        server.stop()
        bench.close()


def check(label: str, status: int, body: Any, text: str) -> None:
    if status < 400:
        return
    if label in ("GET /health", "GET /health/ready"):
        assert set(body) == {"status", "message"}
        return
    assert isinstance(body, dict), f"{label}: {status} {text}"
    assert set(body) == {"error_code", "message"}, f"{label}: {status} {text}"
    message = body["message"]
    assert isinstance(message, str), text
    assert not _TRACES.search(message), f"{label}: a stack: {text}"
    assert status < 500 or _JAVAS_500.search(message), f"{label}: {status} {text}"


def ask(operation: Any, mode: GenerationMode, connector: str, examples: int) -> int:
    """Ask one operation with all kinds of input; how many requests were made."""
    made = 0

    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    @settings(
        max_examples=examples,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def each(case: Any, known: bool) -> None:
        nonlocal made
        # The connector stays: without it there is little to ask about.
        if known and "connector" in case.path_parameters and case.method != "DELETE":
            case.path_parameters["connector"] = connector
        answer = case.call(timeout=TIMEOUT_S)
        made += 1
        try:
            body = answer.json()
        except ValueError:
            body = None
        check(operation.label, answer.status_code, body, answer.text[:300])

    # Nothing is wrong for a request without parameters and body.
    with contextlib.suppress(Unsatisfiable):
        each()
    return made


def ask_everything(url: str, connector: str, examples: int) -> int:
    """Ask all operations of the document; how many requests were made."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    made = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            made += ask(found.ok(), mode, connector, examples)
    return made


def test_whatever_is_asked_is_answered(worker: tuple[str, str]) -> None:
    assert ask_everything(*worker, examples=2) > 50


@pytest.mark.slow
def test_whatever_is_asked_is_answered_at_length(worker: tuple[str, str]) -> None:
    assert ask_everything(*worker, examples=100) > 1_000
