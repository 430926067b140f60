"""Every endpoint over real HTTP: statuses, bodies and headers as Kafka Connect 4.3 has them."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from connect.errors import (
    AuthenticationFailed,
    BrokerError,
    BrokerUnavailable,
    ConnectError,
    DeadlineExceeded,
)
from connect.runtime.errors import Forbidden, RebalanceNeeded
from connect.runtime.rest_entities import LoggerLevel, OffsetEntry, TaskId, WorkerHealth
from connect.runtime.states import TargetState
from tests.support.rest import Answer, call
from tests.support.workers.in_memory_herder import WORKER, InMemoryHerder
from tests.unit.api.started import StartServer

CLASS = {"connector.class": "Table"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def c(herder: InMemoryHerder, url: str) -> str:
    """The URL of a worker that has a connector `c`."""
    herder.configs["c"] = {**CLASS, "name": "c"}
    herder.targets["c"] = TargetState.STARTED
    return url


def test_the_root_says_which_worker_it_is(url: str) -> None:
    answer = call(url, "GET", "/")

    assert list(answer.json()) == ["version", "commit", "kafka_cluster_id"]
    assert answer.json()["kafka_cluster_id"] == "cluster-1"
    assert answer.headers["content-type"] == "application/json"


# Creating and configuring.


def test_a_connector_is_created_with_text_for_scalars_and_its_name(
    herder: InMemoryHerder, url: str
) -> None:
    body = '{"name":" n 1/2 ","config":{"connector.class":"T","a":1.50,"b":true,"c":1e3,"n":null}}'
    answer = call(url, "POST", "/connectors/", body)

    assert answer.status == 201
    assert answer.headers["location"] == f"{url}connectors/n%201/2"
    assert answer.json() == {
        "name": "n 1/2",
        "config": {
            "connector.class": "T", "a": "1.50", "b": "true", "c": "1e3", "name": "n 1/2",
        },
        "tasks": [{"connector": "n 1/2", "task": 0}],
        "type": "source",
    }  # fmt: skip
    assert list(answer.json()) == ["name", "config", "tasks", "type"]
    assert herder.calls[0][2] == {
        "connector.class": "T", "a": "1.50", "b": "true", "c": "1e3", "n": None, "name": "n 1/2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("running", TargetState.STARTED),
        ("PAUSED", TargetState.PAUSED),
        ("Stopped", TargetState.STOPPED),
        (None, None),
    ],
)
def test_initial_states(
    herder: InMemoryHerder, url: str, given: str | None, target: TargetState | None
) -> None:
    body = {"name": "c", "config": CLASS, "initial_state": given}

    assert call(url, "POST", "/connectors", body).status == 201
    assert herder.calls[0][3] is target


def test_creating_a_connector_that_exists_is_a_conflict(c: str) -> None:
    answer = call(c, "POST", "/connectors", {"name": "c", "config": CLASS})

    assert answer.error == (409, "Connector c already exists")


@pytest.mark.parametrize("path", ["/connectors/d/config", "/connectors/d/config/"])
def test_put_creates_and_then_replaces(url: str, path: str) -> None:
    created = call(url, "PUT", path, CLASS)
    replaced = call(url, "PUT", path, {**CLASS, "a": 2})

    assert (created.status, created.headers["location"]) == (201, f"{url}connectors/d")
    assert (replaced.status, replaced.headers.get("location")) == (200, None)
    assert call(url, "GET", "/connectors/d/config").json() == {**CLASS, "a": "2", "name": "d"}


def test_patch_changes_and_removes_keys(herder: InMemoryHerder, c: str) -> None:
    herder.configs["c"]["b"] = "1"
    answer = call(c, "PATCH", "/connectors/c/config", {"a": 5, "b": None})

    assert answer.status == 200
    assert answer.json()["config"] == {**CLASS, "name": "c", "a": "5"}


def test_names_in_path_and_config_have_to_be_the_same(url: str) -> None:
    wanted = (400, "Connector name configuration (y) doesn't match connector name in the URL (x)")

    assert call(url, "PUT", "/connectors/x/config", {**CLASS, "name": "y"}).error == wanted
    body = {"name": "x", "config": {"name": "y"}}
    assert call(url, "POST", "/connectors", body).error == wanted


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"a"', ["not valid JSON", "line 1, column 5"]),
        ('{"a":1} x', ["not valid JSON"]),
        ('{"a":NaN}', ["NaN"]),
        (b'{"a":"\xff"}', ["UTF-8"]),
        ("[" * 100_000, ["nested too deeply"]),
        ("[]", ["must be an object, not an array"]),
        ('"x"', ["not a string"]),
        ("5", ["not a number"]),
        ("null", ["null"]),
        ("", ["null"]),
        ('{"name":"x"}', ['no "config"']),
        ('{"name":["x"],"config":{}}', ["name", "not an array"]),
        ('{"name":"x","config":[]}', ["config", "not an array"]),
        ('{"name":"x","config":{"a":{"b":1}}}', ["Invalid value for a", "not an object"]),
        ('{"name":"x","config":{},"foo":1}', ['Unrecognized field "foo"', "initial_state"]),
        ('{"name":"x","config":{},"initial_state":"zz"}', ["zz", "RUNNING, PAUSED, STOPPED"]),
    ],
)
def test_bodies_that_cannot_be_read_are_500_as_in_java(
    url: str, body: str | bytes, words: list[str]
) -> None:
    _, message = call(url, "POST", "/connectors", body).error

    for word in words:
        assert word in message
    assert "Traceback" not in message


def test_of_a_field_that_comes_twice_the_last_counts(url: str) -> None:
    body = '{"connector.class":"T","a":1,"a":2}'

    assert call(url, "PUT", "/connectors/c/config", body).json()["config"]["a"] == "2"


# Reading.


def test_lists_and_their_expansions(c: str) -> None:
    assert call(c, "GET", "/connectors").json() == ["c"]
    assert call(c, "GET", "/connectors?expand=zz").json() == {"c": {}}
    both = call(c, "GET", "/connectors?expand=info&expand=status").json()
    assert list(both["c"]) == ["status", "info"]
    assert both["c"]["info"] == call(c, "GET", "/connectors/c").json()
    assert both["c"]["status"] == call(c, "GET", "/connectors/c/status").json()


def test_a_status_leaves_out_what_there_is_not(herder: InMemoryHerder, c: str) -> None:
    state = {"state": "RUNNING", "worker_id": WORKER, "version": "1.0"}
    shown = call(c, "GET", "/connectors/c/status").json()
    assert shown == {
        "name": "c", "connector": state, "tasks": [{"id": 0, **state}], "type": "source",
    }  # fmt: skip

    herder.version, herder.trace = "undefined", "went wrong\n"
    task = call(c, "GET", "/connectors/c/tasks/0/status")
    assert list(task.json()) == ["id", "state", "worker_id", "trace"]

    herder.version, herder.trace = None, ""
    task = call(c, "GET", "/connectors/c/tasks/0/status")
    assert task.json() == {"id": 0, "state": "RUNNING", "worker_id": WORKER}


def test_tasks(c: str) -> None:
    answer = call(c, "GET", "/connectors/c/tasks/").json()

    assert answer == [{"id": {"connector": "c", "task": 0}, "config": {**CLASS, "name": "c"}}]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("7", "No status found for task c-7"),
        ("-1", "No status found for task c--1"),
        ("x", "HTTP 404 Not Found"),
        ("1.0", "HTTP 404 Not Found"),
        ("99999999999", "HTTP 404 Not Found"),
        ("%D9%A3", "HTTP 404 Not Found"),
    ],
)
def test_task_numbers_that_name_nothing(c: str, task: str, message: str) -> None:
    assert call(c, "GET", f"/connectors/c/tasks/{task}/status").error == (404, message)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/connectors/x", "Connector x not found"),
        ("/connectors/a%20b/config", "Connector a b not found"),
        ("/connectors/x/status", "No status found for connector x"),
        ("/connectors/x/offsets", "Connector x not found"),
        ("/connector-plugins/X/config", "Unknown plugin X."),
        ("/admin/loggers/x", "Logger x not found."),
    ],
)
def test_what_is_not_there(url: str, path: str, message: str) -> None:
    assert call(url, "GET", path).error == (404, message)


# Commands.


@pytest.mark.parametrize("body", [None, "null", '""', "{broken"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/connectors/c/pause", 202),
        ("PUT", "/connectors/c/resume", 202),
        ("PUT", "/connectors/c/stop", 204),
        ("POST", "/connectors/c/restart", 204),
        ("POST", "/connectors/c/tasks/0/restart", 204),
        ("PUT", "/connectors/c/topics/reset", 202),
        ("DELETE", "/connectors/c", 204),
    ],
)
def test_commands_answer_with_nothing_and_ignore_bodies(
    c: str, method: str, path: str, status: int, body: str | None
) -> None:
    answer = call(c, method, path, body)

    assert (answer.status, answer.body) == (status, b"")
    assert "content-type" not in answer.headers
    assert answer.headers.get("content-length") == ("0" if status == 202 else None)


@pytest.mark.parametrize(
    ("query", "call_made", "status"),
    [
        ("?includeTasks=True", (False, True), 202),
        ("?onlyFailed=TRUE&includeTasks=1", (True, False), 202),
        ("?onlyFailed=false&includeTasks=yes", None, 204),
        ("?includeTasks=", None, 204),
    ],
)
def test_restart_reads_booleans_as_java_does(
    herder: InMemoryHerder, c: str, query: str, call_made: tuple[bool, bool] | None, status: int
) -> None:
    answer = call(c, "POST", f"/connectors/c/restart{query}")

    assert answer.status == status
    assert herder.calls == [("restart", "c", *call_made) if call_made else ("restart", "c")]
    if status == 202:
        assert answer.json()["tasks"][0]["id"] == 0


def test_a_task_is_restarted(herder: InMemoryHerder, c: str) -> None:
    call(c, "POST", "/connectors/c/tasks/+03/restart")

    assert herder.calls == [("restart", TaskId("c", 3))]


# Offsets, topics, plugins, loggers.


def test_offsets_are_listed_altered_and_reset(herder: InMemoryHerder, c: str) -> None:
    entries = {"offsets": [{"partition": {"p": 1, "x": "é"}, "offset": {"o": 1.5}}]}

    assert call(c, "PATCH", "/connectors/c/offsets", entries).json() == {"message": "altered"}
    assert herder.offsets["c"] == [OffsetEntry({"p": 1, "x": "é"}, {"o": 1.5})]
    assert call(c, "GET", "/connectors/c/offsets").json() == entries
    assert call(c, "DELETE", "/connectors/c/offsets").json() == {"message": "reset"}
    assert call(c, "GET", "/connectors/c/offsets").json() == {"offsets": []}


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({}, 400, "need to be provided"),
        ({"offsets": []}, 400, "need to be provided"),
        ({"offsets": {}}, 500, "array"),
        ({"offsets": [None]}, 500, "null"),
        ({"offsets": [{"x": 1}]}, 500, "partition, offset"),
        ({"offsets": [{"partition": {"a": [1]}, "offset": None}]}, 400, "a in partition"),
        ("", 500, "null"),
    ],
)
def test_offsets_that_cannot_be_read(c: str, body: Any, status: int, word: str) -> None:
    code, message = call(c, "PATCH", "/connectors/c/offsets", body).error

    assert code == status
    assert word in message


def test_topics(herder: InMemoryHerder, c: str) -> None:
    assert call(c, "GET", "/connectors/c/topics").json() == {"c": {"topics": ["t"]}}
    assert call(c, "GET", "/connectors/x/topics").json() == {"x": {"topics": []}}
    herder.problems["active_topics"] = Forbidden("Topic tracking is disabled.")
    assert call(c, "GET", "/connectors/c/topics").error == (403, "Topic tracking is disabled.")


def test_plugins(url: str) -> None:
    connectors = call(url, "GET", "/connector-plugins").json()
    everything = call(url, "GET", "/connector-plugins?connectorsOnly=False").json()

    table = {"class": "org.example.TableConnector", "type": "source", "version": "1.0"}
    assert connectors == [table]
    assert everything == [table, {"class": "org.example.TableConverter", "type": "converter"}]


KEY_FIELDS = [
    "name", "type", "required", "default_value", "importance", "documentation", "group",
    "order_in_group", "width", "display_name", "dependents",
]  # fmt: skip


def test_validation_shows_definitions_and_values(url: str) -> None:
    path = "/connector-plugins/TableConnector/config/validate/"
    answer = call(url, "PUT", path, {"connector.class": "org.example.Table", "tasks.max": 3})
    shown = answer.json()

    assert answer.status == 200
    assert list(shown) == ["name", "error_count", "groups", "configs"]
    unknown, name, *_, tasks_max = shown["configs"]
    assert unknown["definition"] is None
    assert unknown["value"] == {
        "name": "x", "value": "1", "recommended_values": [], "errors": ["no"], "visible": True,
    }  # fmt: skip
    assert list(tasks_max["definition"]) == KEY_FIELDS
    assert (name["definition"]["required"], name["definition"]["default_value"]) == (True, None)
    assert tasks_max["definition"]["default_value"] == "1"
    assert tasks_max["value"]["value"] == "3"


def test_validation_of_another_class_than_the_path_says(url: str) -> None:
    answer = call(url, "PUT", "/connector-plugins/Foo/config/validate", CLASS)
    assert answer.error == (400, "Included connector type Table does not match request type Foo")

    answer = call(url, "PUT", "/connector-plugins/Foo/config/validate", {})
    assert answer.error[0] == 500
    assert answer.error[1].endswith(
        "BadRequestException: Connector config {} contains no connector type"
    )


def test_keys_of_a_plugin(url: str) -> None:
    found = call(url, "GET", "/connector-plugins/TableConnector/config").json()

    assert [list(key) for key in found] == [KEY_FIELDS] * 4


def test_loggers(herder: InMemoryHerder, url: str) -> None:
    herder.levels["a"] = LoggerLevel("WARN", None)
    assert list(call(url, "GET", "/admin/loggers/").json()) == ["a", "root"]
    assert call(url, "GET", "/admin/loggers/root").json() == {
        "level": "INFO", "last_modified": None,
    }  # fmt: skip
    assert call(url, "PUT", "/admin/loggers/b?scope=zz", {"level": "debug"}).json() == ["b"]
    assert call(url, "PUT", "/admin/loggers/b?scope=Cluster", {"level": "zz"}).status == 204
    assert herder.calls == [("cluster logger", "b", "zz")]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, (400, "Desired 'level' parameter was not specified in request.")),
        ({"level": None}, (400, "Desired 'level' parameter was not specified in request.")),
        ({"level": 5}, (404, "invalid log level '5'.")),
    ],
)
def test_levels_that_are_none(url: str, body: Any, error: tuple[int, str]) -> None:
    assert call(url, "PUT", "/admin/loggers/b", body).error == error


# Requests between workers.


def test_task_configs_come_with_their_signature_and_exact_bytes(
    herder: InMemoryHerder, c: str
) -> None:
    body = b'[ {"a": "b", "n": 1} ]'
    headers = {
        **JSON,
        "X-Connect-Authorization": "bWFj",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    answer = call(c, "POST", "/connectors/c/tasks", body, headers)

    assert (answer.status, answer.body) == (204, b"")
    signature = ("HmacSHA256", "bWFj")
    assert herder.calls == [("task configs", "c", [{"a": "b", "n": "1"}], signature, body)]
    assert call(c, "PUT", "/connectors/c/fence").status == 204
    assert herder.calls[1:] == [("fence", "c", (None, None), b"")]


def test_task_configs_that_are_no_array(c: str) -> None:
    assert call(c, "POST", "/connectors/c/tasks", {}).error[0] == 500


# Failures of the herder.


def test_a_rebalance_has_the_text_that_clients_wait_for(herder: InMemoryHerder, c: str) -> None:
    herder.problems["connector_info"] = RebalanceNeeded("stale")
    text = "Request cannot be completed because a rebalance is expected"
    assert call(c, "GET", "/connectors/c").error == (500, text)

    herder.problems["delete_connector"] = RebalanceNeeded("stale")
    code, message = call(c, "DELETE", "/connectors/c").error
    assert (code, "stale configuration" in message) == (409, True)


def test_a_herder_that_does_not_answer(herder: InMemoryHerder, c: str) -> None:
    herder.problems["delete_connector"] = DeadlineExceeded("not within 90 s")
    herder.state = WorkerHealth(ready=True, stage="The worker is currently joining the group.")

    answer = call(c, "DELETE", "/connectors/c")
    assert answer.error == (500, "Request timed out. The worker is currently joining the group.")


def test_a_request_that_tells_what_it_waited_for(herder: InMemoryHerder, c: str) -> None:
    late = "Request timed out. The worker is currently performing multi-property validation."
    herder.problems["delete_connector"] = DeadlineExceeded(late)
    herder.state = WorkerHealth(ready=True, stage="The worker is currently joining the group.")

    assert call(c, "DELETE", "/connectors/c").error == (500, late)


def test_what_nobody_expected_is_answered_without_a_stack(herder: InMemoryHerder, c: str) -> None:
    herder.problems["delete_connector"] = KeyError("oops")

    assert call(c, "DELETE", "/connectors/c").error == (500, "'oops'")
    assert call(c, "GET", "/connectors").status == 200


# What concerns no handler.


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nothing", {}, 404),
        ("GET", "/connectors/c/tasks-config", {}, 404),
        ("GET", "/Connectors", {}, 404),
        ("PUT", "/connectors", {}, 405),
        ("GET", "/connectors/c/restart", {}, 405),
        ("BREW", "/connectors", {}, 405),
        ("GET", "/connectors", {"Accept": "text/html"}, 406),
        ("GET", "/connectors", {"Accept": "application/json;q=0"}, 406),
        ("GET", "/connectors", {"Accept": "nonsense"}, 406),
        ("GET", "/connectors", {"Content-Type": "text/plain"}, 415),
        ("PUT", "/connectors/c/pause", {"Content-Type": "text/plain"}, 415),
    ],
)
def test_the_router_answers_in_the_shape_of_errors(
    c: str, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    reasons = {
        404: "Not Found",
        405: "Method Not Allowed",
        406: "Not Acceptable",
        415: "Unsupported Media Type",
    }
    answer = call(c, method, path, headers=headers)

    assert answer.error == (status, f"HTTP {status} {reasons[status]}")


@pytest.mark.parametrize(
    "accept", ["*/*", "application/*", "text/html, application/json;q=0.5", "", "APPLICATION/JSON"]
)
def test_accepted_media_types(c: str, accept: str) -> None:
    assert call(c, "GET", "/connectors", headers={"Accept": accept.lower()}).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, 201),
        ({"Content-Type": "application/vnd.x+json"}, 415),
        ({}, 415),
    ],
)
def test_content_types_of_bodies(url: str, headers: dict[str, str], status: int) -> None:
    assert call(url, "PUT", "/connectors/c/config", json.dumps(CLASS), headers).status == status


@pytest.mark.parametrize("path", ["/connectors/a%2Fb", "/connectors//c", "/connectors/%zz"])
def test_paths_that_could_mean_two_things(c: str, path: str) -> None:
    assert call(c, "GET", path).error[0] == 400


def test_head_is_get_without_the_body(c: str) -> None:
    answer, asked = call(c, "HEAD", "/connectors"), call(c, "GET", "/connectors")

    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == asked.headers["content-length"]
    assert call(c, "HEAD", "/connectors/x").status == 404


def test_options_tell_the_methods(c: str) -> None:
    answer = call(c, "OPTIONS", "/connectors/c/config/", headers={})
    assert answer.status == 200
    assert answer.headers["allow"] == "GET,HEAD,OPTIONS,PATCH,PUT"
    assert answer.body == b"GET, HEAD, OPTIONS, PATCH, PUT"
    assert answer.headers["content-type"].startswith("text/plain")
    assert call(c, "OPTIONS", "/connectors/c").body == b""
    assert call(c, "OPTIONS", "/connectors/c/tasks", headers={}).headers["allow"] == (
        "GET,HEAD,OPTIONS,POST"
    )


def test_a_body_arrives_though_the_client_offers_http_2(url: str) -> None:
    """As Java's HttpClient does with every first request."""
    body = json.dumps({**CLASS, "long": "x" * 70_000}).encode()
    head = (
        "PUT /connectors/c/config HTTP/1.1\r\nHost: w\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        "Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(head.encode() + body[:1000])
        connection.sendall(body[1000:])
        status = connection.makefile("rb").readline()

    assert b" 201 " in status
    assert len(call(url, "GET", "/connectors/c/config").json()["long"]) == 70_000


# Health and our own pages.


def health(url: str) -> tuple[int, str, str]:
    answer = call(url, "GET", "/health/")
    found = answer.json()
    assert list(found) == ["status", "message"]
    return answer.status, found["status"], found["message"]


def test_health(herder: InMemoryHerder, start_server: StartServer) -> None:
    url = start_server(herder)
    ready = "Worker has completed startup and is ready to handle requests."
    assert health(url) == (200, "healthy", ready)

    herder.state = WorkerHealth(ready=False, stage="It reads the config topic.")
    wanted = "Worker is still starting up. It reads the config topic."
    assert health(url) == (503, "starting", wanted)

    herder.state = WorkerHealth(ready=True, outside="This worker is joining its group g")
    unable = "Worker was unable to handle this request and may be unable to handle other requests."
    wanted = f"{unable} This worker is joining its group g"
    assert health(url) == (500, "unhealthy", wanted)

    herder.problems["health"] = ConnectError("The herder has ended.")
    assert health(url)[:2] == (500, "unhealthy")


def test_health_with_connectors_tasks_and_partitions(
    herder: InMemoryHerder, start_server: StartServer
) -> None:
    url = start_server(herder)
    call(url, "PUT", "/connectors/c/config", CLASS)
    page = call(url, "GET", "/health?verbose=true").json()

    assert page["status"] == "healthy"
    (connector,) = page["connectors"]
    assert (connector["name"], connector["healthy"]) == ("c", True)
    assert {"id", "state", "healthy", "partitions"} <= connector["tasks"][0].keys()
    assert page["jobs"] == []
    assert "compiled_part" in page

    herder.state = WorkerHealth(ready=False, stage="It reads the config topic.")
    starting = call(url, "GET", "/health?verbose=true")
    assert (starting.status, list(starting.json())) == (503, ["status", "message"])


def test_before_the_herder_has_started(start_server: StartServer) -> None:
    url = start_server(None)

    assert health(url) == (503, "starting", "Worker is still starting up.")
    assert call(url, "GET", "/connectors").error == (503, "Worker is still starting up.")
    assert call(url, "GET", "/metrics").status == 200


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_pages_that_would_load_scripts_of_foreign_hosts_are_off(url: str, page: str) -> None:
    assert call(url, "GET", page).status == 404


def test_openapi_knows_every_path_and_the_models(url: str) -> None:
    page = call(url, "GET", "/openapi.json").json()

    config = page["paths"]["/connectors/{connector}/config"]
    assert set(config) == {"get", "put", "patch"}
    info = config["put"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert info == {"$ref": "#/components/schemas/ConnectorInfo"}
    assert list(page["components"]["schemas"]["ConnectorInfo"]["properties"]) == [
        "name", "config", "tasks", "type",
    ]  # fmt: skip
    created = page["paths"]["/connectors"]["post"]["requestBody"]["content"]["application/json"]
    assert set(created["schema"]["properties"]) == {"name", "config", "initial_state"}
    restart = page["paths"]["/connectors/{connector}/restart"]["post"]["parameters"]
    schemas = {parameter["name"]: parameter["schema"] for parameter in restart}
    assert schemas["includeTasks"]["type"] == "boolean"
    assert "forward" in schemas


def test_metrics_are_served_to_any_client(url: str) -> None:
    answer: Answer = call(url, "GET", "/metrics", headers={"Accept": "text/plain"})

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert call(url, "GET", "/metrics?family=Z").error[0] == 400


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (BrokerError("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 53), "true"),
        (AuthenticationFailed("wrong password"), "true"),
        (BrokerUnavailable("no coordinator"), None),
        (ConnectError("Worker is shutting down"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_leader_says_whether_fencing_may_be_asked_for_again(
    herder: InMemoryHerder, c: str, error: ConnectError, final: str | None
) -> None:
    herder.problems["fence_zombies"] = error
    answer = call(c, "PUT", "/connectors/c/fence")
    assert answer.error == (500, str(error))
    assert answer.headers.get("x-connect-final-error") == final
