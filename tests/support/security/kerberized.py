"""Kafka clusters whose listeners want Kerberos, and Java client properties that log in there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.brokers import JvmOptions, KafkaCluster, KafkaRuntime
from deploy.brokers.ports import LOOPBACK
from tests.support.security.certificates import Authority
from tests.support.security.kdc import REALM, Kdc
from tests.support.security.secure_listeners import tls_properties

__all__ = [
    "BROKER",
    "LISTENERS",
    "LOCAL_USER",
    "MIRROR",
    "jaas",
    "kerberized",
    "login_properties",
]

BROKER = f"kafka/{LOOPBACK}"
MIRROR = "mirrormaker/host.example"
LOCAL_USER = "mirrormaker-of-host.example"
"""The user that the brokers' auth_to_local rule makes of `MIRROR`. It alone may do anything."""
LISTENERS = {"KERBEROS": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}
_LOCAL_RULES = "RULE:[2:$1-of-$2@$0](mirror.*@.*)s/@.*//,DEFAULT"
_KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"


def jaas(principal: str, keytab: Path | str, more: str = "") -> str:
    """The usual `sasl.jaas.config` of a service with a keytab."""
    return (
        f'{_KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}"'
        f' principal="{principal}@{REALM}"{more};'
    )


def login_properties(principal: str, keytab: Path | str) -> dict[str, str]:
    """Java client properties besides addresses."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": jaas(principal, keytab),
    }


@contextmanager
def kerberized(
    kdc: Kdc,
    kafka: KafkaRuntime,
    logs: Path,
    authority: Authority,
    *,
    name: str = "kerberos",
    nodes: int = 1,
    properties: Mapping[str, str] | None = None,
) -> Iterator[KafkaCluster]:
    """Run a cluster with the listeners `LISTENERS`.

    Nobody but `LOCAL_USER` has any rights. The keytab of `BROKER` is made once for each KDC.
    """
    keytab = kdc.directory / "brokers.keytab"
    if not keytab.exists():
        keytab = kdc.keytab(BROKER, keytab)
    chosen = {
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": _LOCAL_RULES,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{LOCAL_USER}",
        **tls_properties("secure", authority, LOOPBACK),
        **(properties or {}),
    }
    for listener in LISTENERS:
        prefix = f"listener.name.{listener.lower()}"
        chosen[f"{prefix}.sasl.enabled.mechanisms"] = "GSSAPI"
        chosen[f"{prefix}.gssapi.sasl.jaas.config"] = jaas(BROKER, keytab)
    with KafkaCluster(
        nodes=nodes,
        name=name,
        kafka=kafka,
        logs=logs,
        listeners=LISTENERS,
        properties=chosen,
        jvm=JvmOptions(flags=(f"-Djava.security.krb5.conf={kdc.config}",)),
    ) as cluster:
        yield cluster
