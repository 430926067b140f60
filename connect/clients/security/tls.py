"""Convert Java's `ssl.*` properties for librdkafka, and to an `SSLContext` for raw connections.

Cipher suites may have their registered names, as in Java (TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
or OpenSSL's (ECDHE-RSA-AES128-GCM-SHA256).
"""

from __future__ import annotations

import logging
import re
import secrets
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from connect.clients.security.configured_stores import key_pair, trusted_certificates
from connect.clients.security.store_files import StoreFiles
from connect.clients.warn_once import warn_once
from connect.config.types import ConfigType, invalid_value, parse_value
from connect.errors import ConfigError

if TYPE_CHECKING:
    from connect.clients.security.key_stores import KeyPair

__all__ = ["librdkafka_tls", "server_ssl_context", "ssl_context", "verifies_hostname"]

_log = logging.getLogger(__name__)

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_DEFAULT_VERSIONS = ("TLSv1.2", "TLSv1.3")
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_TLS13_SUITE = re.compile(r"TLS_(?!.*_WITH_)")
# OpenSSL omits the key exchange of TLS_RSA_WITH_X from the name.
_KEY_EXCHANGE = re.compile(r"^TLS_(?:RSA_WITH|(.+?)_WITH)_")
_AES = re.compile(r"AES_(128|256)_(GCM|CCM|CBC)")


def verifies_hostname(props: Mapping[str, str]) -> bool:
    """Return whether a broker's certificate must match its host name: not if the algorithm is
    empty.
    """
    key = "ssl.endpoint.identification.algorithm"
    algorithm = props.get(key, "https").strip().lower()
    if algorithm not in ("https", "", "none"):
        raise invalid_value(key, algorithm, "must be https, or empty to switch the check off")
    return algorithm == "https"


def librdkafka_tls(props: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's TLS properties. Raises ConfigError for unreadable stores."""
    _refuse_java_classes(props)
    config = {
        "ssl.endpoint.identification.algorithm": "https" if verifies_hostname(props) else "none"
    }
    pair = key_pair(props)
    if pair is not None:
        config["ssl.certificate.pem"] = pair.certificate_chain
        config["ssl.key.pem"] = pair.key_pem(None)
    trusted = trusted_certificates(props)
    if trusted is not None:
        config["ssl.ca.pem"] = trusted
    ciphers = _openssl_ciphers(props)
    if ciphers:
        config["ssl.cipher.suites"] = ciphers
    if _enabled_versions(props) != _DEFAULT_VERSIONS:
        warn_once(
            "ssl.enabled.protocols",
            "ssl.protocol and ssl.enabled.protocols apply only to connections that copy data;"
            " admin clients (librdkafka) negotiate TLSv1.2 or newer",
        )
    return config


def ssl_context(props: Mapping[str, str]) -> ssl.SSLContext:
    """Return a client context. Raises ConfigError for unusable stores, versions or ciphers.

    New connections use the stores as they are then: files that were replaced are read again, and if
    that fails, the last ones that could be read stay in use.
    """
    return _ClientContext(props)


class _ClientContext(ssl.SSLContext):
    """A client context that is made again when its stores change. Thread-safe.

    It is a context of its own and not a factory, because kafka-python and urllib want one. Only
    `wrap_socket` begins connections here.
    """

    def __new__(cls, _props: Mapping[str, str]) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, props: Mapping[str, str]) -> None:
        self._stores = _ReplacedStores(props, "clients", _client_context)
        _make_client(self, props)

    def wrap_socket(self, *arguments: Any, **keywords: Any) -> ssl.SSLSocket:
        newest = self._stores.context()
        if newest is None:
            return super().wrap_socket(*arguments, **keywords)
        return newest.wrap_socket(*arguments, **keywords)


class _ReplacedStores:
    """Key and trust stores that may be replaced while they are in use. Thread-safe."""

    def __init__(
        self,
        props: Mapping[str, str],
        whose: str,
        make: Callable[[Mapping[str, str]], ssl.SSLContext],
    ) -> None:
        """`whose`: for the log. `make`: returns a context of the stores as they are now."""
        self._props = props
        self._whose = whose
        self._make = make
        self._files = StoreFiles(props)
        self._lock = threading.Lock()
        self._newest: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext | None:
        """Return the context of the newest stores that could be read; None while they are the
        first ones."""
        with self._lock:
            if self._files.changed():
                try:
                    self._newest = self._make(self._props)
                    _log.info("Loaded the replaced TLS stores of %s", self._whose)
                except (ConfigError, OSError) as error:
                    _log.error("Keeping the previous TLS stores of %s: %s", self._whose, error)
            return self._newest


def _client_context(props: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _make_client(context, props)
    return context


def _make_client(context: ssl.SSLContext, props: Mapping[str, str]) -> None:
    _refuse_java_classes(props)
    trusted = trusted_certificates(props)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        context.load_verify_locations(cadata=trusted)
    # As in Java, a trust store may contain a broker's own or an intermediate certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = verifies_hostname(props)
    _set_versions_and_ciphers(context, props)
    pair = key_pair(props)
    if pair is not None:
        _load_key_pair(context, pair)


def server_ssl_context(props: Mapping[str, str]) -> ssl.SSLContext:
    """Return a server context. Raises ConfigError.

    `ssl.client.auth` (none, requested, required) decides whether clients must show a certificate
    that the trust store verifies. New connections use the stores as they are now: files that were
    replaced are read again, and if that fails, the last ones that could be read stay in use.
    """
    stores = _ReplacedStores(props, "the listeners", _server_context)
    context = _server_context(props)

    def use_newest(connection: ssl.SSLObject | ssl.SSLSocket, *_: object) -> None:
        newest = stores.context()
        if newest is not None:
            connection.context = newest

    # Called for every handshake, also of clients that send no server name.
    context.sni_callback = use_newest
    return context


def _server_context(props: Mapping[str, str]) -> ssl.SSLContext:
    _refuse_java_classes(props)
    pair = key_pair(props)
    if pair is None:
        raise ConfigError(
            'Missing required configuration "ssl.keystore.location": an https listener needs a '
            "key and a certificate, given with ssl.keystore.* or listeners.https.ssl.keystore.*",
            key="ssl.keystore.location",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions_and_ciphers(context, props)
    _load_key_pair(context, pair)
    wanted = props.get("ssl.client.auth", "none").strip().lower() or "none"
    if wanted not in _CLIENT_AUTH:
        raise invalid_value("ssl.client.auth", wanted, f"must be one of {', '.join(_CLIENT_AUTH)}")
    context.verify_mode = _CLIENT_AUTH[wanted]
    if context.verify_mode is not ssl.CERT_NONE:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        trusted = trusted_certificates(props)
        if trusted is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            context.load_verify_locations(cadata=trusted)
    return context


def _set_versions_and_ciphers(context: ssl.SSLContext, props: Mapping[str, str]) -> None:
    versions = [_VERSIONS[name] for name in _enabled_versions(props)]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    ciphers = _openssl_ciphers(props)
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError as error:
            raise invalid_value(
                "ssl.cipher.suites", props["ssl.cipher.suites"], "OpenSSL supports none of these"
            ) from error


def _refuse_java_classes(props: Mapping[str, str]) -> None:
    key = "ssl.engine.factory.class"
    if props.get(key):
        raise invalid_value(key, props[key], "Java classes cannot be used here; remove the key")


def _load_key_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a key pair through a temporary file, because `SSLContext` reads only files.

    The file is encrypted with a one-time passphrase.
    """
    passphrase = secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix="connect-tls-") as directory:
        path = Path(directory) / "pair.pem"
        path.touch(mode=0o600)
        path.write_text(pair.certificate_chain + pair.key_pem(passphrase.encode()))
        try:
            context.load_cert_chain(path, password=passphrase)
        except ssl.SSLError as error:
            raise invalid_value(
                "ssl.keystore.key", "[hidden]", "the private key does not fit the certificate"
            ) from error


def _enabled_versions(props: Mapping[str, str]) -> tuple[str, ...]:
    """Return the TLS versions to use, oldest first: the enabled ones, up to `ssl.protocol`."""
    enabled = _strings(props, "ssl.enabled.protocols") or _DEFAULT_VERSIONS
    for name in enabled:
        if name not in _VERSIONS:
            raise invalid_value(
                "ssl.enabled.protocols", name, f"must be one of {', '.join(_VERSIONS)}"
            )
    newest = props.get("ssl.protocol", "").strip() or "TLSv1.3"
    if newest in ("TLS", "SSL"):
        newest = "TLSv1.3"
    if newest not in _VERSIONS:
        raise invalid_value("ssl.protocol", newest, f"must be one of {', '.join(_VERSIONS)}, TLS")
    known = list(_VERSIONS)
    return tuple(name for name in known[: known.index(newest) + 1] if name in enabled) or (newest,)


def _openssl_ciphers(props: Mapping[str, str]) -> str:
    """Return the suites in OpenSSL's list syntax. TLS 1.3 suites cannot be selected
    individually.
    """
    suites = _strings(props, "ssl.cipher.suites")
    older = [suite for suite in suites if not _TLS13_SUITE.match(suite)]
    if len(older) != len(suites):
        warn_once(
            "ssl.cipher.suites TLSv1.3",
            "ssl.cipher.suites: TLS 1.3 cipher suites cannot be selected individually; all"
            " suites of OpenSSL are offered",
        )
    return ":".join(_openssl_name(suite) for suite in older)


def _openssl_name(suite: str) -> str:
    if not suite.startswith("TLS_"):
        return suite
    name = _KEY_EXCHANGE.sub(lambda found: f"{found[1]}_" if found[1] else "", suite)
    name = _AES.sub(
        lambda found: f"AES{found[1]}" + ("" if found[2] == "CBC" else f"_{found[2]}"), name
    )
    name = name.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return name.replace("_", "-")


def _strings(props: Mapping[str, str], key: str) -> tuple[str, ...]:
    value = parse_value(key, props.get(key, ""), ConfigType.LIST)
    assert isinstance(value, tuple)
    return value
