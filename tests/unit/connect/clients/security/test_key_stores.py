"""Java's key and trust stores, as keytool wrote them (tests/golden/key_stores/make.sh)."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from connect.clients.security.java_keystore import read_jks
from connect.clients.security.key_stores import read_key_pair, read_trusted_certificates
from connect.errors import ConfigError, CorruptData

STORES = Path(__file__).parents[4] / "golden" / "key_stores"


def key_props(name: str, **more: str) -> dict[str, str]:
    props = {"ssl.keystore.location": str(STORES / name), "ssl.keystore.password": "changeit"}
    if name.endswith(".jks"):
        props["ssl.key.password"] = "key-password"
    return props | {key.replace("_", "."): value for key, value in more.items()}


def names(pem: str) -> list[str]:
    return [one.subject.rfc4514_string() for one in x509.load_pem_x509_certificates(pem.encode())]


@pytest.mark.parametrize("name", ["client.p12", "client.jks"])
def test_a_key_comes_with_its_chain_in_order(name: str) -> None:
    pair = read_key_pair(key_props(name))
    assert pair is not None
    assert names(pair.certificate_chain) == ["CN=client", "CN=inter", "CN=root"]
    own = x509.load_pem_x509_certificates(pair.certificate_chain.encode())[0]
    assert own.public_key().public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    ) == pair.private_key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("name", ["trust.p12", "trust.jks"])
def test_trusted_certificates_are_read(name: str) -> None:
    pem = read_trusted_certificates(
        {
            "ssl.truststore.location": str(STORES / name),
            "ssl.truststore.password": "changeit",
            # Java opens either format under either name.
            "ssl.truststore.type": "JKS",
        }
    )
    assert pem is not None
    assert sorted(names(pem)) == ["CN=inter", "CN=root"]


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("one_line", [False, True])
def test_pem_text_in_properties_may_stand_on_one_line(encrypted: bool, one_line: bool) -> None:
    pair = read_key_pair(key_props("client.p12"))
    assert pair is not None
    how = BestAvailableEncryption(b"pw") if encrypted else NoEncryption()
    key = pair.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()
    chain = pair.certificate_chain
    if one_line:
        key, chain = (" ".join(text.split("\n")) for text in (key, chain))
    again = read_key_pair(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": chain,
            "ssl.key.password": "pw",
        }
    )
    assert again is not None
    assert names(again.certificate_chain) == ["CN=client", "CN=inter", "CN=root"]


def test_a_pem_file_may_hold_key_and_chain(tmp_path: Path) -> None:
    pair = read_key_pair(key_props("client.p12"))
    assert pair is not None
    key = pair.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = tmp_path / "all.pem"
    path.write_text(key.decode() + pair.certificate_chain)
    again = read_key_pair({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    assert again is not None
    assert names(again.certificate_chain)[0] == "CN=client"
    assert read_trusted_certificates({"ssl.truststore.location": str(path)}) is not None


def test_without_stores_there_is_no_key_and_the_systems_trust() -> None:
    assert read_key_pair({}) is None
    assert read_trusted_certificates({}) is None


@pytest.mark.parametrize(
    ("props", "key"),
    [
        (key_props("client.p12", ssl_keystore_password="hunter2"), "ssl.keystore.password"),
        (key_props("client.jks", ssl_keystore_password="hunter2"), "ssl.keystore.password"),
        (key_props("client.jks", ssl_key_password="hunter2"), "ssl.key.password"),
        (key_props("nothing.p12"), "ssl.keystore.location"),
        (key_props("make.sh"), "ssl.keystore.location"),
        (key_props("trust.p12"), "ssl.keystore.location"),
        (key_props("trust.jks"), "ssl.keystore.location"),
        (key_props("client.p12", ssl_keystore_type="BCFKS"), "ssl.keystore.type"),
        ({"ssl.keystore.key": "hunter2"}, "ssl.keystore.certificate.chain"),
        (
            {"ssl.keystore.key": "hunter2", "ssl.keystore.certificate.chain": "hunter2"},
            "ssl.keystore.certificate.chain",
        ),
    ],
)
def test_what_is_wrong_is_named_without_secrets(props: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_key_pair(props)
    assert caught.value.key == key
    assert key in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_encrypted_key_without_password_is_refused() -> None:
    pair = read_key_pair(key_props("client.p12"))
    assert pair is not None
    key = pair.private_key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw")
    ).decode()
    with pytest.raises(ConfigError, match=r'"ssl\.key\.password": the private key is encrypted'):
        read_key_pair(
            {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": pair.certificate_chain}
        )


def test_a_jceks_store_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "old.jceks"
    path.write_bytes(bytes.fromhex("cececece00000002"))
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        read_key_pair({"ssl.keystore.location": str(path)})


@given(at=st.integers(4, 1269), value=st.integers(0, 255))
def test_damaged_jks_bytes_give_one_kind_of_error(at: int, value: int) -> None:
    data = bytearray((STORES / "client.jks").read_bytes())
    if data[at] == value:
        return
    data[at] = value
    with pytest.raises(CorruptData):
        read_jks(bytes(data), "changeit")
    try:
        for entry in read_jks(bytes(data), None):
            entry.private_key("key-password")
    except CorruptData:
        pass
