"""A worker asks the others of its group for the partitions of their tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from connect.clients.rest_client import RestAnswer, RestClient, WorkerUnreachable
from connect.errors import CorruptData
from connect.plugin import PartitionHealth
from connect.protocol.signatures import sign
from connect.runtime.connector_status import (
    ConnectorStatus,
    TaskStatus,
    decode_partitions,
    encode_partitions,
)
from connect.runtime.distributed.leader_client import InternalRequests
from connect.runtime.distributed.peer_partitions import complete_status, worker_url
from connect.runtime.errors import BadRequest, Forbidden
from connect.runtime.states import State, Status
from connect.storage.config_records import SessionKey
from tests.support.workers.driven_herder import Rig
from tests.unit.connect.runtime.distributed.steered import running

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
BEHIND = PartitionHealth(
    "orders", 1, 7, 1500, "no leader", 700, 60_000, {"state": "active", "limited_by": None}
)


class Workers(RestClient):
    """The other workers, by the URL of the request. The others cannot be reached."""

    def __init__(self, answers: Mapping[str, RestAnswer]) -> None:
        super().__init__()
        self.answers = answers
        self.headers: list[Mapping[str, str]] = []

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> RestAnswer:
        self.headers.append(headers or {})
        answer = self.answers.get(url)
        if answer is None:
            raise WorkerUnreachable(f"{method} {url}: refused")
        return answer


def tasks_on(*workers: str, state: State = State.RUNNING) -> ConnectorStatus:
    """Tasks as worker `me:1` sees them."""
    return ConnectorStatus(
        "a c",
        Status(State.RUNNING, "me:1", 0),
        tuple(
            TaskStatus.seen_here(number, Status(state, worker, 0), [] if worker == "me:1" else None)
            for number, worker in enumerate(workers)
        ),
    )


def answer(tasks: Mapping[int, Sequence[PartitionHealth]]) -> RestAnswer:
    return RestAnswer(200, encode_partitions(tasks))


def completed(
    status: ConnectorStatus, client: RestClient | None, scheme: str = "http"
) -> list[tuple[tuple[PartitionHealth, ...], str | None]]:
    requests = InternalRequests(client, "HmacSHA256", lambda: KEY, "/A/B")
    try:
        found = complete_status(status, requests, scheme)
    finally:
        requests.close()
    return [(task.partitions, task.unknown) for task in found.tasks]


def test_partitions_survive_their_way() -> None:
    sent = {0: [BEHIND], 3: [], 12: [PartitionHealth("t", 0, None, None)]}
    assert decode_partitions(encode_partitions(sent)) == {n: tuple(p) for n, p in sent.items()}


def test_another_release_may_send_other_fields() -> None:
    data = json.loads(encode_partitions({0: [BEHIND]}))
    data["0"][0] |= {"color": "red"}
    del data["0"][0]["lag_bytes"]
    (found,) = decode_partitions(json.dumps(data).encode())[0]
    assert (found.name, found.lag_records, found.lag_bytes) == ("orders-1", 7, None)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"x": []}', b'{"0": [{"topic": "t"}]}', b"{"])
def test_what_is_no_answer_is_told_apart(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_partitions(data)


@pytest.mark.parametrize(
    ("worker_id", "url"),
    [
        ("host:8083", "https://host:8083"),
        ("host:8083/A->B", "https://host:8083"),
        ("::1:8083", "https://[::1]:8083"),
        ("[::1]:8083", "https://[::1]:8083"),
        ("host/A->B/2b1f", None),
        ("host", None),
    ],
)
def test_a_workers_url_follows_from_its_id(worker_id: str, url: str | None) -> None:
    assert worker_url(worker_id, "https") == url


def test_each_owner_is_asked_once_with_a_signature() -> None:
    path = "/A/B/connectors/a%20c/partitions"
    workers = Workers(
        {
            f"http://one:1{path}": answer({1: [BEHIND], 2: []}),
            f"http://two:1{path}": answer({3: [BEHIND]}),
        }
    )
    found = completed(tasks_on("me:1", "one:1", "one:1/A->B", "two:1"), workers)
    assert found == [((), None), ((BEHIND,), None), ((), None), ((BEHIND,), None)]
    signature = sign(KEY.key, KEY.algorithm, b"/connectors/a%20c/partitions")
    assert [sent["X-Connect-Authorization"] for sent in workers.headers] == [signature] * 3


def test_who_does_not_answer_is_named() -> None:
    path = "/A/B/connectors/a%20c/partitions"
    workers = Workers(
        {
            f"http://java:1{path}": RestAnswer(404, b'{"error_code":404,"message":"HTTP 404"}'),
            f"http://moved:1{path}": answer({}),
        }
    )
    found = completed(tasks_on("gone:1", "java:1", "moved:1", "here/A->B/1"), workers)
    reasons = [unknown or "" for _, unknown in found]
    assert reasons[0].startswith("Worker gone:1 cannot be asked: GET http://gone:1/")
    assert reasons[1].endswith("the worker answered 404: HTTP 404")
    assert reasons[2] == "Worker moved:1 does not run the task any more; try again"
    assert reasons[3].startswith("Worker here/A->B/1 cannot be asked: the workers do not reach")


def test_without_rest_nobody_is_asked() -> None:
    ((_, unknown),) = completed(tasks_on("one:1"), None)
    assert "dedicated.mode.enable.internal.rest=true" in (unknown or "")


def test_of_a_task_that_does_not_run_nobody_is_asked() -> None:
    assert completed(tasks_on("one:1", state=State.FAILED), None) == [((), "The task is FAILED")]


def test_a_worker_answers_only_to_its_group(rig: Rig) -> None:
    running(rig)
    key = rig.store.snapshot().session_key
    assert key is not None
    right = sign(key.key, "HmacSHA256", b"/connectors/c/partitions")
    assert rig.herder.task_partitions("c", ("HmacSHA256", right)) == {0: []}
    with pytest.raises(Forbidden):
        rig.herder.task_partitions("c", ("HmacSHA256", sign(key.key, "HmacSHA256", b"")))
    with pytest.raises(BadRequest):
        rig.herder.task_partitions("c", (None, None))


def test_a_worker_needs_to_ask_nobody_for_its_own_tasks(rig: Rig) -> None:
    running(rig)
    (task,) = rig.herder.group_status("c").tasks
    assert (task.partitions, task.unknown) == ((), None)
    assert rig.leader.asked == []
