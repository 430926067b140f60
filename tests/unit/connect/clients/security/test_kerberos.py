"""Kerberos without a KDC: the sentence for each failure, and a library that is missing."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import pytest
from kafka.net.sasl import SASL_MECHANISMS

from connect.clients.security.kerberos import (
    KerberosLogin,
    KerberosMechanism,
    explained,
)
from connect.clients.security.own_mechanisms import LOGIN_KEY
from connect.errors import AuthenticationFailed, BrokerUnavailable, ConfigError

KEYTAB = KerberosLogin("kafka", "mm/host@R", "/etc/mm.keytab")
CACHE = KerberosLogin("kafka")
KDC_UNREACHABLE = -1765328228
TICKET_EXPIRED = -1765328352
NO_CACHE = -1765328189


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-1765328377, "the KDC has no principal kafka/broker; check sasl.kerberos.service.name"),
        (-1765328378, "the KDC does not know this principal"),
        (-1765328353, "the KDC refused the keytab's key"),
        (-1765328360, "the KDC refused the keytab's key"),
        (-1765328361, "the principal's key has expired"),
        (-1765328383, "the principal has expired"),
        (-1765328347, "clock skew"),
        (-1765328351, "clock skew"),
        (-1765328236, "clock skew"),
        (-1765328230, "krb5.conf names no KDC"),
        (-1765328203, "the keytab has no key of this principal"),
        (NO_CACHE, "the keytab has no key of this principal"),
        (-1, "to kafka/broker failed: GSSAPI's text"),
    ],
)
def test_each_failure_has_a_sentence(code: int, said: str) -> None:
    error = explained(code, "GSSAPI's text", KEYTAB, "kafka/broker")
    assert isinstance(error, AuthenticationFailed)
    assert "mm/host@R with keytab /etc/mm.keytab" in str(error)
    assert said in str(error)


def test_what_passes_is_tried_again() -> None:
    assert isinstance(explained(KDC_UNREACHABLE, "", KEYTAB, "s"), BrokerUnavailable)
    # With a keytab, a ticket expires only while no KDC gives another.
    assert isinstance(explained(TICKET_EXPIRED, "", KEYTAB, "s"), BrokerUnavailable)


@pytest.mark.parametrize("code", [TICKET_EXPIRED, NO_CACHE])
def test_without_a_keytab_a_person_must_get_a_ticket(code: int) -> None:
    error = explained(code, "", CACHE, "s")
    assert isinstance(error, AuthenticationFailed)
    assert "name a keyTab in sasl.jaas.config, or run kinit" in str(error)


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"pip install 'kafka-connect-mirror\[kerberos\]'") as got:
        KerberosMechanism(KEYTAB, "broker")
    assert got.value.key == "sasl.mechanism"


def test_a_missing_keytab_is_named_with_its_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", pytest)
    missing = tmp_path / "none.keytab"
    with pytest.raises(ConfigError, match=f"{missing} .* cannot be read on .*: No such file"):
        KerberosMechanism(KerberosLogin("kafka", "mm@R", str(missing)), "broker")


def test_krb5_conf_of_kafka_opts_is_libkrb5s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Djava.security.krb5.conf=/etc/company/krb5.conf")
    monkeypatch.delenv("KRB5_CONFIG", raising=False)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError):
        KerberosMechanism(CACHE, "broker")
    assert os.environ["KRB5_CONFIG"] == "/etc/company/krb5.conf"
    monkeypatch.delenv("KRB5_CONFIG")


def test_each_keytab_and_principal_has_tickets_of_its_own() -> None:
    other = KerberosLogin("kafka", "other@R", "/etc/mm.keytab")
    assert KEYTAB.store()["client_keytab"] == "/etc/mm.keytab"
    assert KEYTAB.store()["ccache"].startswith("MEMORY:")
    assert KEYTAB.store() != other.store()
    assert KEYTAB.store() == pickle.loads(pickle.dumps(KEYTAB)).store()
    assert KerberosLogin("kafka", None, None, "/tmp/cc").store() == {"ccache": "FILE:/tmp/cc"}
    assert CACHE.store() == {}


def test_kafka_pythons_own_mechanism_stays_for_other_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(RuntimeError, match="GSSAPI lib not found"):
        SASL_MECHANISMS["GSSAPI"](sasl_kerberos_service_name="kafka", host="broker")
    with pytest.raises(ConfigError):
        SASL_MECHANISMS["GSSAPI"](host="broker", **{LOGIN_KEY: KEYTAB})
