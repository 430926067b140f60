"""Flows that executors of a standalone cluster copy, between brokers that want each mechanism over
TLS. The executors have of ours only what is sent to them, and log in themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.brokers import JvmOptions, KafkaCluster, KafkaRuntime
from deploy.brokers.ports import LOOPBACK
from deploy.spark_cluster import SparkCluster
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running
from tests.support.records.producing import numbered, produce
from tests.support.security.certificates import Authority
from tests.support.security.delegation_tokens import TOKEN_BROKER, DelegationTokens
from tests.support.security.kdc import Kdc, kdc, missing_for_kerberos
from tests.support.security.kerberized import BROKER, MIRROR, jaas, login_properties
from tests.support.security.secure_listeners import LOGIN, SECRET, sasl_properties, tls_properties
from tests.support.security.token_issuer import TokenIssuer, running_issuer
from tests.support.spark.flow import SPARK, START_S, STOP_S
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, bare_python, of_flow

# A broker and a Spark cluster for all, and a session for each.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MISSING = missing_for_kerberos()
COUNT = 500
LISTENERS = {
    "SECURE": "SASL_SSL",
    "SIGNED": "SASL_SSL",
    "MUTUAL": "SSL",
    "KERBEROS": "SASL_SSL",
    # Only for the command that makes delegation tokens.
    "OPEN": "SASL_PLAINTEXT",
}
TLS = ("SECURE", "SIGNED", "MUTUAL", "KERBEROS")
WITHOUT_KERBEROS = {name: LISTENERS[name] for name in LISTENERS if name != "KERBEROS"}


@dataclass
class Secured:
    """A broker with all mechanisms, what gives credentials for it, and a Spark cluster."""

    cluster: KafkaCluster
    spark: SparkCluster
    issuer: TokenIssuer
    tokens: DelegationTokens
    folder: Path
    kdc: Kdc | None

    def login(self, mechanism: str) -> tuple[str, dict[str, str]]:
        """The listener, and client properties besides those of the trust store."""
        if mechanism == "PLAIN" or mechanism.startswith("SCRAM"):
            return "SECURE", password(mechanism)
        if mechanism == "delegation token":
            return "SECURE", self.tokens.create().login()
        if mechanism == "client credentials":
            return "SIGNED", self.issuer.client_credentials()
        if mechanism == "assertion":
            return "SIGNED", self.issuer.assertion()
        if mechanism == "client certificate":
            own = {"type": "PEM", "location": str(self.folder / "client.pem")}
            return "MUTUAL", {f"ssl.keystore.{key}": value for key, value in own.items()}
        assert self.kdc is not None
        return "KERBEROS", login_properties(MIRROR, self.folder / "mirror.keytab")

    def client(self, mechanism: str) -> dict[str, str]:
        listener, login = self.login(mechanism)
        return {
            **login,
            "bootstrap.servers": self.cluster.bootstrap(listener),
            "security.protocol": LISTENERS[listener],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }


def password(mechanism: str) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{LOGIN}.{module} required username="ali" password="{SECRET}";',
    }


def kerberos_properties(server: Kdc) -> dict[str, str]:
    return {
        "sasl.kerberos.service.name": "kafka",
        "listener.name.kerberos.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.kerberos.gssapi.sasl.jaas.config": jaas(BROKER, server.keytab(BROKER)),
    }


@pytest.fixture(scope="module")
def secured(
    kafka: KafkaRuntime, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    folder, authority = tmp_path_factory.mktemp("secured"), Authority()
    (folder / "ca.pem").write_text(authority.pem)
    (folder / "client.pem").write_text("".join(authority.issue("mirror")))
    properties = {**TOKEN_BROKER, **sasl_properties("secure"), **sasl_properties("open")}
    with ExitStack() as stack:
        issuer = stack.enter_context(running_issuer(folder))
        properties |= issuer.broker_properties("signed")
        flags = [issuer.jvm_flag]
        server = None
        if MISSING is None:
            server = stack.enter_context(kdc(folder / "kdc"))
            server.keytab(MIRROR, folder / "mirror.keytab")
            properties |= kerberos_properties(server)
            flags.append(f"-Djava.security.krb5.conf={server.config}")
        listeners = LISTENERS if server else WITHOUT_KERBEROS
        for name in TLS:
            if name in listeners:
                properties |= tls_properties(name.lower(), authority, LOOPBACK)
        scrams = [f"SCRAM-SHA-{size}=[name=ali,password={SECRET}]" for size in (256, 512)]
        cluster = stack.enter_context(
            KafkaCluster(
                name="secured",
                kafka=kafka,
                logs=session_logs,
                listeners=listeners,
                properties=properties,
                format_arguments=[part for each in scrams for part in ("--add-scram", each)],
                jvm=JvmOptions(flags=tuple(flags)),
            )
        )
        python = bare_python(folder / "python")
        spark = stack.enter_context(SparkCluster(1, path=[python], logs=session_logs))
        owner = {**password("SCRAM-SHA-512"), "security.protocol": "SASL_PLAINTEXT"}
        tokens = DelegationTokens(kafka, cluster.bootstrap("OPEN"), owner, folder)
        yield Secured(cluster, spark, issuer, tokens, folder, server)


@pytest.mark.parametrize(
    "mechanism",
    [
        "PLAIN",
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
        "delegation token",
        "client credentials",
        "assertion",
        "client certificate",
        pytest.param(
            "Kerberos", marks=pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
        ),
    ],
)
def test_executors_log_in_and_copy(
    secured: Secured,
    mechanism: str,
    logs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow, log = MirroredFlow(secured.cluster, secured.cluster), logs / "mirror.log"
    topic = flow.topic("t")
    produce(flow.source_servers, topic, numbered(COUNT))
    spark = {"spark.master": secured.spark.url, **SMALL_EXECUTORS, **QUICK_JVM}
    if secured.kdc is not None:
        # Elsewhere it is /etc/krb5.conf.
        monkeypatch.setenv("KRB5_CONFIG", str(secured.kdc.config))
        spark["spark.executorEnv.KRB5_CONFIG"] = str(secured.kdc.config)
    client = secured.client(mechanism)
    logins = {f"{side}.{key}": value for side in "AB" for key, value in client.items()}
    with running(flow.properties({**SPARK, **of_flow(spark), **logins}), tmp_path, log) as mirror:
        flow.wait_records(topic, [COUNT], START_S)
        assert secured.spark.executors(), "executors copied it"
        assert "task 0 on Spark: " in log.read_text()
        assert mirror.stop(STOP_S) == 0, log.read_text()
    assert_equal_logs(flow, topic)
