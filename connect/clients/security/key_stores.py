"""Java's key and trust stores as PEM, from PEM, PKCS12 or JKS files or PEM text in properties.

A file's format is detected from its content, because keytool writes PKCS12 even for JKS, and Java
reads either under either name. Nothing is cached, so the next client sees a changed file. Errors
contain no password and no key material.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from connect.clients.security.java_keystore import JksEntry, WrongPassword, is_jks, read_jks
from connect.config.bounded_files import read_regular_file
from connect.config.types import invalid_value
from connect.errors import ConfigError, CorruptData

__all__ = ["KeyPair", "read_key_pair", "read_trusted_certificates"]

_PEM_BLOCK = re.compile(
    # A body ends at the next frame. It may have headers, in which there are single dashes.
    r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*+(?:-(?!----)[^-]*+)*)-----END \1-----"
)
_CERTIFICATE_LABELS = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_STORE_TYPES = ("JKS", "PKCS12", "PEM")
_JCEKS_MAGIC = bytes.fromhex("cececece")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A client's private key and its certificate chain as PEM, with its own certificate first."""

    certificate_chain: str
    private_key: PrivateKeyTypes = field(repr=False)

    def key_pem(self, passphrase: bytes | None) -> str:
        """Return the private key in PKCS#8, encrypted if there is a passphrase."""
        encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        return self.private_key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, encryption
        ).decode()


def read_key_pair(props: Mapping[str, str]) -> KeyPair | None:
    """Return the client's key from `ssl.keystore.*`, or None if it is not configured.

    Raises ConfigError with the key at fault.
    """
    _check_type(props, "ssl.keystore.type")
    chain, key = props.get("ssl.keystore.certificate.chain"), props.get("ssl.keystore.key")
    location = props.get("ssl.keystore.location")
    if chain or key:
        return _pair_from_text(props, chain, key, location)
    if not location:
        return None
    data = _read_file("ssl.keystore.location", location)
    store_password = props.get("ssl.keystore.password")
    key_password = props.get("ssl.key.password")
    if is_jks(data):
        return _pair_from_jks(location, data, store_password, key_password)
    if _is_pem(data):
        text = data.decode("ascii", "replace")
        return KeyPair(
            _certificates("ssl.keystore.location", text),
            _private_key("ssl.keystore.location", text, key_password),
        )
    bundle = _read_pkcs12("ssl.keystore", location, data, store_password)
    if bundle.key is None or bundle.cert is None:
        raise invalid_value("ssl.keystore.location", location, "it holds no private key")
    certificates = [
        bundle.cert.certificate,
        *(more.certificate for more in bundle.additional_certs),
    ]
    return KeyPair(_chain_of(certificates), bundle.key)


def read_trusted_certificates(props: Mapping[str, str]) -> str | None:
    """Return the certificates of `ssl.truststore.*` as PEM, or None for the system's own.

    Raises ConfigError with the key at fault.
    """
    _check_type(props, "ssl.truststore.type")
    text, location = props.get("ssl.truststore.certificates"), props.get("ssl.truststore.location")
    if text:
        if location:
            raise ConfigError(
                "ssl.truststore.certificates and ssl.truststore.location exclude each other; "
                "remove one",
                key="ssl.truststore.location",
                value=location,
            )
        return _certificates("ssl.truststore.certificates", text)
    if not location:
        return None
    data = _read_file("ssl.truststore.location", location)
    if _is_pem(data):
        return _certificates("ssl.truststore.location", data.decode("ascii", "replace"))
    password = props.get("ssl.truststore.password")
    if is_jks(data):
        ders = [
            certificate
            for entry in _jks_entries("ssl.truststore", location, data, password)
            for certificate in entry.certificates
        ]
        return _all_pem("ssl.truststore.location", location, [_certificate(der) for der in ders])
    bundle = _read_pkcs12("ssl.truststore", location, data, password)
    found = [more.certificate for more in bundle.additional_certs]
    if bundle.cert is not None:
        found.insert(0, bundle.cert.certificate)
    return _all_pem("ssl.truststore.location", location, found)


def _check_type(props: Mapping[str, str], key: str) -> None:
    given = props.get(key)
    if given and given.upper() not in _STORE_TYPES:
        raise invalid_value(
            key,
            given,
            f"must be one of {', '.join(_STORE_TYPES)}; keytool -importkeystore converts",
        )


def _read_file(key: str, location: str) -> bytes:
    try:
        data = read_regular_file(Path(location))
    except OSError as error:
        raise invalid_value(key, location, f"cannot be read: {error.strerror or error}") from error
    if data[:4] == _JCEKS_MAGIC:
        raise invalid_value(
            key,
            location,
            "JCEKS stores are not supported; convert it with keytool -importkeystore "
            f"-srckeystore {location} -srcstoretype JCEKS -destkeystore <file> "
            "-deststoretype PKCS12",
        )
    return data


def _is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def _pair_from_text(
    props: Mapping[str, str], chain: str | None, key: str | None, location: str | None
) -> KeyPair:
    if not (chain and key):
        missing = "ssl.keystore.key" if chain else "ssl.keystore.certificate.chain"
        raise ConfigError(
            "ssl.keystore.certificate.chain and ssl.keystore.key belong together; "
            f"{missing} is missing",
            key=missing,
        )
    if location:
        raise ConfigError(
            "ssl.keystore.key and ssl.keystore.location exclude each other; remove one",
            key="ssl.keystore.location",
            value=location,
        )
    return KeyPair(
        _certificates("ssl.keystore.certificate.chain", chain),
        _private_key("ssl.keystore.key", key, props.get("ssl.key.password")),
    )


def _pair_from_jks(
    location: str, data: bytes, store_password: str | None, key_password: str | None
) -> KeyPair:
    password = key_password or store_password
    for entry in _jks_entries("ssl.keystore", location, data, store_password):
        if entry.protected_key is None:
            continue
        if password is None:
            raise ConfigError(
                f'Missing required configuration "ssl.keystore.password" to open {location}',
                key="ssl.keystore.password",
            )
        try:
            key = load_der_private_key(entry.private_key(password), None)
        except (CorruptData, ValueError, UnsupportedAlgorithm) as error:
            raise _bad_password("ssl.key.password", location) from error
        return KeyPair(_chain_of([_certificate(der) for der in entry.certificates]), key)
    raise invalid_value("ssl.keystore.location", location, "it holds no private key")


def _jks_entries(prefix: str, location: str, data: bytes, password: str | None) -> list[JksEntry]:
    try:
        return read_jks(data, password)
    except WrongPassword as error:
        raise _bad_password(prefix + ".password", location) from error
    except CorruptData as error:
        raise invalid_value(prefix + ".location", location, str(error)) from error


def _read_pkcs12(
    prefix: str, location: str, data: bytes, password: str | None
) -> pkcs12.PKCS12KeyAndCertificates:
    secret = password.encode() if password is not None else None
    try:
        return pkcs12.load_pkcs12(data, secret)
    except (ValueError, UnsupportedAlgorithm) as error:
        if "password" in str(error).lower():
            raise _bad_password(prefix + ".password", location) from error
        raise invalid_value(
            prefix + ".location", location, "neither PEM, PKCS12 nor JKS, or damaged"
        ) from error


def _bad_password(key: str, location: str) -> ConfigError:
    return ConfigError(
        f"Invalid value [hidden] for configuration {key}: it does not open {location}", key=key
    )


def _pem_blocks(text: str) -> list[tuple[str, str]]:
    """Return (label, block) of each PEM block, with its base64 wrapped into lines.

    Users often keep PEM in properties on a single line with blanks.
    """
    blocks = []
    for label, body in _PEM_BLOCK.findall(text):
        headers, _, base64 = body.rpartition("\n\n") if "Proc-Type" in body else ("", "", body)
        lines = "".join(base64.split())
        wrapped = "\n".join(lines[i : i + 64] for i in range(0, len(lines), 64))
        head = f"{headers.strip()}\n\n" if headers else ""
        blocks.append((label, f"-----BEGIN {label}-----\n{head}{wrapped}\n-----END {label}-----\n"))
    return blocks


def _certificates(key: str, text: str) -> str:
    found = [block for label, block in _pem_blocks(text) if label in _CERTIFICATE_LABELS]
    if not found:
        raise invalid_value(key, "[hidden]", "it holds no PEM certificate")
    for block in found:
        try:
            x509.load_pem_x509_certificate(block.encode())
        except ValueError as error:
            raise invalid_value(key, "[hidden]", f"a certificate is damaged: {error}") from error
    return "".join(found)


def _private_key(key: str, text: str, password: str | None) -> PrivateKeyTypes:
    found = [(label, block) for label, block in _pem_blocks(text) if label.endswith("PRIVATE KEY")]
    if not found:
        raise invalid_value(key, "[hidden]", "it holds no PEM private key")
    label, block = found[0]
    encrypted = label.startswith("ENCRYPTED") or "Proc-Type" in block
    if encrypted and not password:
        raise ConfigError(
            'Missing required configuration "ssl.key.password": the private key is encrypted',
            key="ssl.key.password",
        )
    secret = password.encode() if encrypted and password else None
    try:
        return load_pem_private_key(block.encode(), secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if encrypted:
            raise _bad_password("ssl.key.password", "the private key") from error
        raise invalid_value(key, "[hidden]", "the private key is damaged") from error


def _certificate(der: bytes) -> x509.Certificate:
    return x509.load_der_x509_certificate(der)


def _chain_of(certificates: list[x509.Certificate]) -> str:
    """Return the first certificate and its issuers in order. Stores keep them in any order."""
    chain, rest = certificates[:1], certificates[1:]
    while rest:
        issuer = next((one for one in rest if one.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        chain.append(issuer)
        rest.remove(issuer)
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in chain)


def _all_pem(key: str, location: str, certificates: list[x509.Certificate]) -> str:
    if not certificates:
        raise invalid_value(key, location, "it holds no certificate")
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)
