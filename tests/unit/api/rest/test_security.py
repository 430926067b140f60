"""Who may ask: basic authentication, and TLS with certificates on both sides."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from api.rest.security import BASIC_AUTH_EXTENSION, users_of
from api.rest.server import RestServer
from connect.errors import ConfigError
from connect.metrics.registry import MetricRegistry
from connect.runtime.errors import NotLeader
from tests.support.rest import Answer, call
from tests.support.security.certificates import Authority
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import LISTENER, StartServer

EXTENSION = {"rest.extension.classes": BASIC_AUTH_EXTENSION}
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


@pytest.fixture
def jaas(tmp_path: Path) -> Path:
    """A JAAS file with the users ann (secret `s:1 é`) and bob."""
    (tmp_path / "users.properties").write_text("ann=s:1 \\u00e9\nbob=b\n")
    path = tmp_path / "jaas.conf"
    path.write_text(
        "// Other programs' entries stay out of it.\n"
        'KafkaClient { a.B required password="}"; };\n'
        f'KafkaConnect {{ {MODULE} required\n  file="{tmp_path}/users.properties"; }};\n'
    )
    return path


def basic(user: str, password: str) -> dict[str, str]:
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


@pytest.fixture
def guarded(herder: InMemoryHerder, start_server: StartServer, jaas: Path) -> str:
    opts = f'-Xmx1g "-Djava.security.auth.login.config={jaas}"'
    return start_server(herder, EXTENSION, {"KAFKA_OPTS": opts})


@pytest.mark.parametrize(("user", "password"), [("ann", "s:1 é"), ("bob", "b")])
def test_users_come_in(guarded: str, user: str, password: str) -> None:
    assert call(guarded, "GET", "/connectors", headers=basic(user, password)).json() == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("ann", "b"),
        basic("eve", ""),
        basic("", ""),
        {"Authorization": "Basic"},
        {"Authorization": "Basic %%%"},
        {"Authorization": "Bearer YW5uOmI="},
        {"Authorization": "Basic " + base64.b64encode(b"ann").decode()},
    ],
)
@pytest.mark.parametrize("path", ["/connectors", "/", "/health", "/metrics", "/nothing"])
def test_others_do_not(guarded: str, headers: dict[str, str], path: str) -> None:
    answer = call(guarded, "GET", path, headers=headers)

    assert answer.error == (401, "User cannot access the resource.")
    assert answer.headers["www-authenticate"].startswith("Basic ")


def test_signed_requests_of_workers_need_no_user(guarded: str, herder: InMemoryHerder) -> None:
    assert call(guarded, "POST", "/connectors/c/tasks", b"[]").status == 204
    assert call(guarded, "PUT", "/connectors/c/fence").status == 204
    assert call(guarded, "GET", "/connectors/c/partitions").body == b"{}"
    assert call(guarded, "GET", "/connectors/c/tasks").status == 401
    assert call(guarded, "POST", "/connectors/c/tasks/0/restart").status == 401


def test_who_asked_is_passed_on_to_the_leader(
    guarded: str, herder: InMemoryHerder, start_server: StartServer, jaas: Path
) -> None:
    leader = InMemoryHerder()
    props = {**EXTENSION, "java.security.auth.login.config": str(jaas)}
    herder.problems["delete_connector"] = NotLeader("no", start_server(leader, props))

    answer = call(guarded, "DELETE", "/connectors/c", headers=basic("bob", "b"))
    assert answer.error == (404, "Connector c not found")


def test_an_empty_file_of_users_is_refused(jaas: Path) -> None:
    """Java lets everybody in then, which nobody notices who asked for authentication."""
    (jaas.parent / "users.properties").write_text("")
    with pytest.raises(ConfigError, match="names no user"):
        users_of([BASIC_AUTH_EXTENSION], {"java.security.auth.login.config": str(jaas)}, {})


def test_without_the_extension_nobody_is_asked(jaas: Path) -> None:
    assert users_of([], {"java.security.auth.login.config": str(jaas)}, {}) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Other { a.B required; };", "no entry KafkaConnect"),
        ("KafkaConnect { a.LdapLoginModule required; };", "LdapLoginModule"),
        (f"KafkaConnect {{ {MODULE} required; }};", "file="),
        (f"KafkaConnect {{ {MODULE} required file=x; }}", "no entry KafkaConnect"),
        (f'KafkaConnect {{ {MODULE} required file="/no/such"; }};', "/no/such"),
    ],
)
def test_jaas_files_that_name_no_users(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(text)

    with pytest.raises(ConfigError, match=word):
        users_of(
            [BASIC_AUTH_EXTENSION], {}, {"KAFKA_OPTS": f"-Djava.security.auth.login.config={path}"}
        )


def test_an_extension_that_cannot_be_used_stops_the_worker() -> None:
    with pytest.raises(ConfigError, match=r"org\.example\.Auth"):
        RestServer({**LISTENER, "rest.extension.classes": "org.example.Auth"}, MetricRegistry(), {})
    with pytest.raises(ConfigError, match="KAFKA_OPTS"):
        users_of([BASIC_AUTH_EXTENSION], {}, {})


# TLS.


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def stores(authority: Authority, directory: Path) -> dict[str, str]:
    key, certificate = authority.issue("worker", "127.0.0.1", "localhost")
    (directory / "worker.pem").write_text(key + certificate)
    (directory / "trusted.pem").write_text(authority.pem)
    return {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.location": str(directory / "worker.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(directory / "trusted.pem"),
        "ssl.truststore.type": "PEM",
    }


def client(authority: Authority, directory: Path) -> ssl.SSLContext:
    """A context of a client with a certificate of its own."""
    context = authority.client_context()
    key, certificate = authority.issue("client")
    path = directory / "client.pem"
    path.write_text(key + certificate)
    context.load_cert_chain(path)
    return context


def ask(url: str, context: ssl.SSLContext) -> Answer:
    return call(url, "GET", "/connectors", tls=context)


def test_https(
    herder: InMemoryHerder, start_server: StartServer, authority: Authority, tmp_path: Path
) -> None:
    url = start_server(herder, stores(authority, tmp_path))

    assert url.startswith("https://127.0.0.1:")
    assert ask(url, authority.client_context()).json() == []
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(url, Authority().client_context())
    created = call(
        url, "PUT", "/connectors/c/config", {"connector.class": "T"},
        tls=authority.client_context(),
    )  # fmt: skip
    assert created.headers["location"] == f"{url}connectors/c"


def test_clients_have_to_show_a_certificate(
    herder: InMemoryHerder, start_server: StartServer, authority: Authority, tmp_path: Path
) -> None:
    props = stores(authority, tmp_path)
    prefixed = {
        f"listeners.https.{key}" if key.startswith("ssl.") else key: value
        for key, value in props.items()
    }
    url = start_server(herder, {**prefixed, "listeners.https.ssl.client.auth": "required"})

    assert ask(url, client(authority, tmp_path)).json() == []
    with pytest.raises(OSError):  # noqa: PT011 - an alert, or only a closed connection
        ask(url, authority.client_context())


def test_workers_ask_each_other_with_their_certificates(
    herder: InMemoryHerder, start_server: StartServer, authority: Authority, tmp_path: Path
) -> None:
    props = {**stores(authority, tmp_path), "ssl.client.auth": "required"}
    leader = start_server(InMemoryHerder(), props)
    herder.problems["delete_connector"] = NotLeader("no", leader)
    follower = start_server(herder, props)

    answer = call(follower, "DELETE", "/connectors/c", tls=client(authority, tmp_path))
    assert answer.error == (404, "Connector c not found")


@pytest.mark.parametrize(("follower_tls", "leader_tls"), [(True, False), (False, True)])
def test_a_follower_asks_a_leader_of_the_other_scheme(
    herder: InMemoryHerder,
    start_server: StartServer,
    authority: Authority,
    tmp_path: Path,
    follower_tls: bool,
    leader_tls: bool,
) -> None:
    """As during a change from one to the other: the stores are there, the listeners differ."""
    https = stores(authority, tmp_path)
    http = {**https, "listeners": "http://127.0.0.1:0"}
    leading = InMemoryHerder()
    leader = start_server(leading, https if leader_tls else http)
    herder.problems["delete_connector"] = NotLeader("no", leader)
    follower = start_server(herder, https if follower_tls else http)
    assert leader.startswith("https:") is leader_tls
    tls = authority.client_context() if follower_tls else None
    answer = call(follower, "DELETE", "/connectors/c", tls=tls)
    assert answer.error == (404, "Connector c not found")


def test_http_and_https_side_by_side(
    herder: InMemoryHerder, authority: Authority, tmp_path: Path
) -> None:
    props = stores(authority, tmp_path)
    props["listeners"] = "https://127.0.0.1:0,http://localhost:0"
    server = RestServer(props, MetricRegistry(), {})
    try:
        server.bind()
        server.start()
        server.herder_started(herder)
        assert server.advertised_url.startswith("http://localhost:")
        assert call(server.advertised_url, "GET", "/connectors").json() == []
        assert ask(server.urls[0], authority.client_context()).json() == []
    finally:
        server.stop()


def test_https_needs_a_key() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        RestServer({"listeners": "https://h:1"}, MetricRegistry(), {})


def test_an_unknown_kind_of_client_authentication(authority: Authority, tmp_path: Path) -> None:
    props = {**stores(authority, tmp_path), "ssl.client.auth": "maybe"}

    with pytest.raises(ConfigError, match=r"ssl\.client\.auth"):
        RestServer(props, MetricRegistry(), {})
