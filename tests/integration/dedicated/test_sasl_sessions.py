"""Mirrors whose brokers end sessions after a while (`connections.max.reauth.ms`), and whose
delegation tokens end, with each mechanism: raw connections, librdkafka's and the group member's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jwt
import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from connect.clock import SYSTEM_CLOCK
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.properties_files import properties_text
from tests.support.records.producing import numbered, produce
from tests.support.security.canaries import jaas_quoted
from tests.support.security.delegation_tokens import TOKEN_BROKER, DelegationTokens
from tests.support.security.secure_listeners import LOGIN, SECRET, sasl_properties
from tests.support.security.token_server import TokenServer, running_token_server, unsecured_token
from tests.support.served import health_of, rebalances, settled_rebalances
from tests.support.waiting import wait_until

SHORT_MS, LONG_MS, RENEWALS = 1_500, 5_000, 10
WAIT_S = 60.0
TOKEN_LIFE_S = 40
LISTENERS = {"STEADY": "SASL_PLAINTEXT", "SHORT": "SASL_PLAINTEXT", "LONG": "SASL_PLAINTEXT"}
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass
class Sessions:
    """A broker, and how to log in there with each mechanism."""

    cluster: KafkaCluster
    tokens: DelegationTokens
    server: TokenServer
    key_file: Path

    def login(self, mechanism: str) -> dict[str, str]:
        if mechanism == "delegation token":
            return self.tokens.create().login()
        if mechanism == "OAUTHBEARER":
            return self._assertion()
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{LOGIN}.{module} required username="ali" password="{SECRET}";',
        }

    def _assertion(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
            "sasl.oauthbearer.jwt.retriever.class": f"{LOGIN}.oauthbearer.JwtBearerJwtRetriever",
            "sasl.oauthbearer.token.endpoint.url": self.server.url,
            "sasl.oauthbearer.assertion.private.key.file": str(self.key_file),
            "sasl.oauthbearer.assertion.claim.iss": "mirror",
            "sasl.oauthbearer.assertion.claim.sub": "ali",
            "sasl.oauthbearer.assertion.claim.aud": "idp",
        }


def judged(form: dict[str, str], _: str | None) -> tuple[int, bytes]:
    """A short-lived token for an assertion that our key signed."""
    if form["grant_type"] != GRANT:
        return 400, b"{}"
    claims = jwt.decode(
        form["assertion"], KEY.public_key(), algorithms=["RS256"], audience="idp", issuer="mirror"
    )
    now = SYSTEM_CLOCK.now_ms() // 1000
    text = unsecured_token({"sub": claims["sub"], "iat": now - 1, "exp": now + TOKEN_LIFE_S})
    return 200, b'{"access_token": "%s", "expires_in": %d}' % (text.encode(), TOKEN_LIFE_S)


@pytest.fixture(scope="module")
def sessions(
    kafka: KafkaRuntime, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sessions]:
    folder = tmp_path_factory.mktemp("sessions")
    key_file = folder / "key.pem"
    key_file.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    properties = {"log.retention.ms": "-1", **TOKEN_BROKER}
    for listener, life_ms in (("steady", 0), ("short", SHORT_MS), ("long", LONG_MS)):
        properties |= sasl_properties(listener)
        properties[f"listener.name.{listener}.connections.max.reauth.ms"] = str(life_ms)
    scram = [f"SCRAM-SHA-{size}=[name=ali,password={SECRET}]" for size in (256, 512)]
    with (
        running_token_server() as server,
        KafkaCluster(
            name="sessions",
            kafka=kafka,
            logs=session_logs,
            listeners=LISTENERS,
            properties=properties,
            format_arguments=[part for value in scram for part in ("--add-scram", value)],
        ) as cluster,
    ):
        server.judge = judged
        plain = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": (
                f'{LOGIN}.plain.PlainLoginModule required username="ali"'
                f' password="{jaas_quoted(SECRET)}";'
            ),
        }
        tokens = DelegationTokens(kafka, cluster.bootstrap("STEADY"), plain, folder)
        yield Sessions(cluster, tokens, server, key_file)


def flow_properties(
    flow: MirroredFlow, kind: str, logins: Mapping[str, Mapping[str, str]], listener: str
) -> dict[str, str]:
    """`logins`: client properties by cluster, A and B."""
    extra = {
        f"{side}.{key}": value for side, login in logins.items() for key, value in login.items()
    }
    servers = {f"{side}.bootstrap.servers": flow.source.bootstrap(kind) for side in logins}
    return flow.properties({**extra, **servers, "metrics.listener": listener})


def connections(pid: int) -> set[int]:
    """The local ports of the process's connections."""
    found = psutil.Process(pid).net_connections("tcp")
    return {each.laddr.port for each in found if each.status == psutil.CONN_ESTABLISHED}


def outlive(
    sessions: Sessions,
    listeners: tuple[str, int],
    mechanisms: tuple[str, str],
    directory: Path,
    log: Path,
    page: str,
) -> None:
    """Copy until ten sessions have ended: nothing is lost or doubled, nobody rebalances, and
    connections that live longer than a session have authenticated again."""
    kind, life_ms = listeners
    flow = MirroredFlow(sessions.cluster, sessions.cluster)
    logins = {side: sessions.login(name) for side, name in zip("AB", mechanisms, strict=True)}
    topic = flow.topic()
    sent = 0

    def send() -> None:
        nonlocal sent
        produce(flow.source_servers, topic, numbered(10, start=sent))
        sent += 10

    with running(flow_properties(flow, kind, logins, page), directory, log) as mirror:
        send()
        flow.wait_records(topic, [sent])
        before, opened = settled_rebalances(page), connections(mirror.pid)
        ends = SYSTEM_CLOCK.monotonic() + RENEWALS * life_ms / 1000

        def over() -> bool:
            send()
            assert mirror.running()
            return SYSTEM_CLOCK.monotonic() > ends

        wait_until(over, RENEWALS * life_ms / 1000 + WAIT_S, f"{RENEWALS} sessions")
        flow.wait_records(topic, [sent])
        assert rebalances(page) == before
        # Clients of librdkafka and the group member keep theirs; the copier opens new ones in time.
        assert len(opened & connections(mirror.pid)) >= 2
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)
    text = log.read_text()
    assert " ERROR " not in text
    assert "refused" not in text


@pytest.mark.parametrize(
    "mechanisms", [("PLAIN", "SCRAM-SHA-512"), ("delegation token", "OAUTHBEARER")]
)
def test_ten_short_sessions_end_without_a_loss(
    sessions: Sessions, mechanisms: tuple[str, str], tmp_path: Path, logs: Path, listener: str
) -> None:
    outlive(sessions, ("SHORT", SHORT_MS), mechanisms, tmp_path, logs / "mirror.log", listener)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "delegation token"]
)
def test_ten_sessions_end_without_a_loss(
    sessions: Sessions, mechanism: str, tmp_path: Path, logs: Path, listener: str
) -> None:
    both = (mechanism, mechanism)
    outlive(sessions, ("LONG", LONG_MS), both, tmp_path, logs / "mirror.log", listener)


def test_an_expired_delegation_token_is_named_with_its_remedy_and_a_new_one_goes_on(
    sessions: Sessions, tmp_path: Path, logs: Path, listener: str
) -> None:
    flow = MirroredFlow(sessions.cluster, sessions.cluster)
    topic, log = flow.topic(), logs / "mirror.log"
    token, tokens = sessions.tokens.create(), sessions.tokens
    path = tmp_path / "mm2.properties"

    def properties() -> dict[str, str]:
        return flow_properties(flow, "SHORT", {"A": token.login(), "B": token.login()}, listener)

    produce(flow.source_servers, topic, numbered(10))
    with running(properties(), tmp_path, log) as mirror:
        flow.wait_records(topic, [10])
        tokens.expire(token)
        remedy = f"The delegation token {token.id} has expired or was removed"
        wait_until(lambda: remedy in str(health_of(listener)), WAIT_S, "the remedy on /health")
        assert remedy in log.read_text()
        checked = check(path)
        assert checked.returncode == 1
        assert remedy in checked.stdout
        assert token.hmac not in log.read_text() + checked.stdout + checked.stderr

        produce(flow.source_servers, topic, numbered(10, start=10))
        token = tokens.create()
        text = properties_text(properties())
        path.write_text(text)
        flow.wait_records(topic, [20])
        wait_until(lambda: health_of(listener)["status"] == "healthy", WAIT_S, "a healthy flow")
        assert mirror.running()
    assert_equal_logs(flow, topic)


def check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "api.cli.mirror_maker", "--check", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
