"""REST calls, good and bad, that a worker of Java's and ours are asked in the same order.

`Compare` says what has to be the same: by default status, body and the headers that matter. Where
Java's message is that of a Java exception (a null pointer, Jackson's words on malformed JSON), only
status and shape are compared; so are bodies that list what is installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["Call", "Compare", "calls"]

JSON = {"Accept": "application/json", "Content-Type": "application/json"}
GET = {"Accept": "application/json"}


class Compare(Enum):
    """What of an answer has to be the same."""

    ALL = auto()
    SHAPE = auto()
    """Status and, of errors, that they have the shape of errors."""
    FIELDS = auto()
    """Status, and names and order of the fields of the first element."""


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    body: str | bytes | None = None
    headers: Mapping[str, str] | None = None
    compare: Compare = Compare.ALL
    settle: bool = False
    """Before it, wait until connectors and tasks have settled: statuses come late."""

    def __str__(self) -> str:
        body = "" if self.body is None else f" {self.body[:60]!r}"
        return f"{self.method} {self.path}{body}"


def calls(connector: str, config: Mapping[str, str]) -> Iterator[Call]:
    """All calls. `connector` runs already, with `config`."""
    yield from _reading(connector)
    yield from _router(connector)
    yield from _bad_bodies()
    yield from _creating(connector, config)
    yield from _offsets(connector)
    yield from _lifecycle(connector)
    yield from _plugins()
    yield from _loggers()
    yield from _internal(connector)
    yield from _deleting()


def _get(path: str, compare: Compare = Compare.ALL, *, settle: bool = False) -> Call:
    return Call("GET", path, None, GET, compare, settle)


def _send(method: str, path: str, body: object = None, compare: Compare = Compare.ALL) -> Call:
    if body is None:
        return Call(method, path, None, GET, compare)
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    return Call(method, path, text, JSON, compare)


def _reading(c: str) -> Iterator[Call]:
    yield _get("/", Compare.FIELDS, settle=True)
    yield _get("/health")
    for path in (
        "", "/", "?expand=status", "?expand=info", "?expand=status&expand=info", "?expand=zz",
        "?expand=",
    ):  # fmt: skip
        yield _get(f"/connectors{path}")
    for path in ("", "/", "/config", "/status", "/topics"):
        yield _get(f"/connectors/{c}{path}")
    yield _get(f"/connectors/{c}/offsets")
    yield _get(f"/connectors/{c}/tasks", Compare.FIELDS)
    for task in ("0", "+0", "7", "-1", "x", "99999999999"):
        yield _get(f"/connectors/{c}/tasks/{task}/status")
    for path in ("", "/config", "/status", "/tasks", "/topics", "/offsets", "/tasks/0/status"):
        yield _get(f"/connectors/nope{path}")
    yield _get("/connectors/a%20b")


def _router(c: str) -> Iterator[Call]:
    yield _get("/nothing")
    yield _get(f"/connectors/{c}/tasks-config")
    yield _get("/Connectors")
    for method, path in (
        ("POST", "/"), ("PUT", "/connectors"), ("DELETE", "/connectors"), ("FOO", "/connectors"),
        ("GET", f"/connectors/{c}/pause"), ("GET", f"/connectors/{c}/restart"),
        ("PUT", "/admin/loggers/"),
    ):  # fmt: skip
        yield Call(method, path, None, GET)
    for accept in ("text/html", "text/html,*/*;q=0.1", "application/*", "garbage"):
        yield Call("GET", "/connectors", None, {"Accept": accept})
    text = {"Content-Type": "text/plain"}
    yield Call("GET", "/connectors", None, text)
    yield Call("PUT", f"/connectors/{c}/resume", None, text)
    yield Call("POST", "/connectors", "{}", {})
    yield Call("POST", "/connectors", "x=1", {"Content-Type": "application/x-www-form-urlencoded"})
    yield Call("HEAD", "/connectors", None, GET)
    yield Call("HEAD", "/connectors/nope", None, GET)
    for path in ("/connectors/a%2Fb", "/connectors//x", "/connectors/%zz"):
        yield _get(path, Compare.SHAPE)


def _bad_bodies() -> Iterator[Call]:
    shape = Compare.SHAPE
    for body in (
        '{"a"', "", "null", "[]", '"x"', "{}", '{"name":"x"}', '{"name":"x","config":{},"foo":1}',
        '{"name":"x","config":{},"initial_state":"zz"}', '{"name":"x","config":{"a":{"b":1}}}',
        '{"name":"x","config":[]}', '{"name":["x"],"config":{}}',
    ):  # fmt: skip
        yield _send("POST", "/connectors", body, shape)
    for text in ("null", "", "[]", '{"a', '{"a":1} x', "{a:1}", '{"a":NaN}'):
        yield _send("PUT", "/connectors/x/config", text, shape)
    yield _send("PUT", "/connectors/x/config", b'{"a":"\xff"}', shape)
    yield _send("POST", "/connectors", {"name": "x", "config": {}})
    yield _send("PUT", "/connectors/x/config", '{"a":1,"a":2}')
    yield _send("PUT", "/connectors/x/config", b'\xef\xbb\xbf{"a":1.50}')
    yield _send("PUT", "/connector-plugins/Foo/config/validate", "null", shape)
    yield _send("PUT", "/admin/loggers/x.y", "null", shape)


def _creating(c: str, config: Mapping[str, str]) -> Iterator[Call]:
    short = {"connector.class": "MirrorHeartbeatConnector"}
    yield _send("POST", "/connectors", {"name": "x", "config": {**short, "name": "y"}})
    yield _send("POST", "/connectors", {"name": "x", "config": {"connector.class": "Nope"}},
                Compare.SHAPE)  # fmt: skip
    yield _send("POST", "/connectors", {"name": c, "config": short})
    yield _send("POST", "/connectors", {"name": "", "config": config})
    wrong = {**config, "tasks.max": "zz", "key.converter": None}
    yield _send("POST", "/connectors", {"name": "x", "config": wrong})
    yield _send("POST", "/connectors/", {"name": "n1", "config": {**config, "zz": None}})
    flags = {**config, "tasks.max": 1, "tasks.max.enforce": True, "zz": 1.5}
    yield _send(
        "POST", "/connectors/", {"name": " n1 ", "config": flags, "initial_state": "PAUSED"}
    )
    yield _send("POST", "/connectors", {"name": "n1", "config": config})
    yield _send("PUT", "/connectors/n1/config", config)
    yield _send("PUT", "/connectors/n2/config/", config)
    yield _send("PATCH", "/connectors/n2/config", {"zz": 1, "k": 2})
    yield _send("PATCH", "/connectors/n2/config", {"zz": None})
    yield _send("PATCH", "/connectors/nope/config", {})
    stopped = {"name": "n 3/x", "config": config, "initial_state": "stopped"}
    yield _send("POST", "/connectors", stopped)
    yield _get("/connectors/n1/status", settle=True)
    yield _get("/connectors/n2/status")
    yield _get("/connectors/n2/config")


def _offsets(c: str) -> Iterator[Call]:
    path = f"/connectors/{c}/offsets"
    entry = {"partition": {"a": 1}, "offset": {"b": 1}}
    yield _send("PATCH", path, {"offsets": []})
    yield _send("PATCH", path, {})
    yield _send("PATCH", path, {"offsets": [entry]})
    yield _send("PATCH", path, {"offsets": [{**entry, "x": 1}]}, Compare.SHAPE)
    yield _send("PATCH", path, "null", Compare.SHAPE)
    yield _send("PATCH", "/connectors/nope/offsets", {"offsets": [entry]})
    yield _send("DELETE", path)
    yield _send("DELETE", "/connectors/nope/offsets")


def _lifecycle(c: str) -> Iterator[Call]:
    for call in ("pause", "resume"):
        yield _send("PUT", f"/connectors/nope/{call}")
    yield _send("DELETE", "/connectors/nope")
    yield _send("PUT", "/connectors/nope/topics/reset")
    yield _send("POST", "/connectors/nope/restart?includeTasks=true")
    path = f"/connectors/{c}"
    yield _send("PUT", f"{path}/pause", "null")
    yield _get(f"{path}/status", settle=True)
    yield _send("PUT", f"{path}/resume", "null")
    yield _get(f"{path}/status", settle=True)
    yield _send("POST", f"{path}/restart", '""')
    yield _get(f"{path}/status", settle=True)
    yield _send("POST", f"{path}/restart?includeTasks=True&onlyFailed=no")
    yield _get(f"{path}/status", settle=True)
    yield _send("POST", f"{path}/restart?onlyFailed=true&includeTasks=true")
    yield _send("POST", f"{path}/tasks/0/restart")
    yield _get(f"{path}/tasks/0/status", settle=True)
    yield _send("PUT", f"{path}/stop")
    yield _get(f"{path}/status", settle=True)
    yield _get(f"{path}/tasks")
    right = {
        "partition": {"sourceClusterAlias": "a", "targetClusterAlias": "b"},
        "offset": {"offset": 0},
    }
    yield _send("PATCH", f"{path}/offsets", {"offsets": [{"partition": {"a": 1}, "offset": None}]})
    yield _send("PATCH", f"{path}/offsets", {"offsets": [right]})
    yield _get(f"{path}/offsets")
    yield _send("DELETE", f"{path}/offsets")
    yield _get(f"{path}/offsets")
    yield _send("PUT", f"{path}/topics/reset", "null")
    yield _get(f"{path}/topics", settle=True)
    yield _send("PUT", f"{path}/resume")
    yield _get(f"{path}/status", settle=True)


def _plugins() -> Iterator[Call]:
    heartbeat = "/connector-plugins/MirrorHeartbeatConnector/config"
    yield _get("/connector-plugins", Compare.FIELDS)
    yield _get("/connector-plugins?connectorsOnly=False", Compare.FIELDS)
    yield _get("/connector-plugins/Nope/config")
    yield _get(heartbeat, Compare.FIELDS)
    yield _send("PUT", f"{heartbeat}/validate", {})
    yield _send("PUT", "/connector-plugins/Foo/config/validate", {"connector.class": "Bar"})
    yield _send(
        "PUT", f"{heartbeat}/validate",
        {"connector.class": "MirrorHeartbeatConnector", "name": "x", "tasks.max": "zz"},
        Compare.FIELDS,
    )  # fmt: skip


def _loggers() -> Iterator[Call]:
    path = "/admin/loggers/parity.a"
    yield _get("/admin/loggers/root", Compare.FIELDS)
    yield _get("/admin/loggers/nope.logger")
    yield _send("PUT", path, {"level": "DEBUG"})
    yield _send("PUT", f"{path}?scope=cluster", {"level": "DEBUG"})
    for body in ({}, {"level": "zz"}, {"level": 5}, {"level": None}):
        yield _send("PUT", path, body)
    yield _get(path, Compare.FIELDS)


def _internal(c: str) -> Iterator[Call]:
    yield _send("POST", f"/connectors/{c}/tasks", [])
    yield _send("PUT", f"/connectors/{c}/fence")
    # Not with a body of another shape: Java parses it before it looks for the signature.


def _deleting() -> Iterator[Call]:
    yield _send("DELETE", "/connectors/n1")
    yield _send("DELETE", "/connectors/n1")
    yield _send("DELETE", "/connectors/n2")
    yield _get("/connectors/n2/status", settle=True)
