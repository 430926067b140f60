"""Kerberos (SASL GSSAPI) with the keytab or the ticket cache that a Krb5LoginModule names.

Tickets come from the system's libkrb5 through the Python package `gssapi`, never from a command:
no principal and no path reaches a shell. With a keytab, tickets are in this process's memory.
libkrb5 gets a new one when a connection is opened and half of the old one's life is over; while the
KDC is down, the old one is used until it ends. A connection outlives the ticket it was opened with,
as in Java.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from dataclasses import dataclass
from typing import Any

from connect.clients.security.own_mechanisms import register_mechanism
from connect.config.java_options import system_property
from connect.errors import AuthenticationFailed, BrokerUnavailable, ConfigError, ConnectError

__all__ = ["KerberosLogin", "KerberosMechanism", "explained"]

_MECHANISM = "GSSAPI"
_INSTALL = "pip install 'kafka-connect-mirror[kerberos]'; it needs the system's libkrb5"
# RFC 4752: the last message has the security layer (1 for none, the only one in Kafka) and the
# largest message for one. The authorization identity after them is left out, as in Java.
_NO_SECURITY_LAYER = b"\x01"
_LAYERS_BYTES = 4
# A request to a KDC that does not answer ends by libkrb5's own time limits, some 30 s for each KDC.
_LOGIN_TIMEOUT_S = 120.0
_lock = threading.Lock()

# From krb5.h and RFC 4120. GSSAPI has them as unsigned numbers of 32 bits.
_KRB5 = -1765328384
_NAME_EXPIRED, _CLIENT_UNKNOWN, _SERVER_UNKNOWN = _KRB5 + 1, _KRB5 + 6, _KRB5 + 7
_KEY_EXPIRED, _PREAUTH_FAILED = _KRB5 + 23, _KRB5 + 24
_BAD_INTEGRITY, _TICKET_EXPIRED, _NOT_YET_VALID, _SKEW = (_KRB5 + n for n in (31, 32, 33, 37))
_SKEW_OF_KDC, _REALM_UNKNOWN, _KDC_UNREACHABLE = (_KRB5 + n for n in (148, 154, 156))
_NO_KEY, _NO_CACHE, _CACHE_NOT_FOUND = _KRB5 + 181, _KRB5 + 195, _KRB5 + 141


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A Kerberos login: the principal, and its keytab or ticket cache. Immutable; holds paths, not
    keys."""

    service_name: str
    """The first part of the brokers' principals, `service_name/host@REALM`."""
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    """A path; None for libkrb5's default (KRB5CCNAME). Used without a keytab."""

    def __str__(self) -> str:
        who = self.principal or "the default principal"
        if self.keytab:
            return f"{who} with keytab {self.keytab}"
        return f"{who} with the ticket cache {self.ticket_cache or '(KRB5CCNAME or the default)'}"

    def store(self) -> dict[str, str]:
        """Return where libkrb5 finds keys and keeps tickets."""
        if self.keytab is None:
            return {"ccache": f"FILE:{self.ticket_cache}"} if self.ticket_cache else {}
        told = f"{self.principal}\n{self.keytab}".encode()
        name = hashlib.sha256(told).hexdigest()[:16]
        return {"client_keytab": self.keytab, "ccache": f"MEMORY:kafka-connect-mirror-{name}"}


class KerberosMechanism:
    """One authentication to one broker, with the methods of kafka-python's mechanisms.

    The caller alternates `auth_bytes` and `receive` until `is_done`. Both may wait for the KDC.
    """

    def __init__(self, login: KerberosLogin, host: str) -> None:
        """Prepare the login. Raises `ConfigError` if gssapi or the keytab is missing,
        `AuthenticationFailed` if the KDC refuses, and `BrokerUnavailable` if no KDC answers."""
        self._gssapi = _library()
        self._login = login
        self._service = f"{login.service_name}/{host}"
        _check_keytab(login)
        self._context = self._new_context(host)
        self._token: bytes = self._step(None)
        self._last_sent = self._done = False

    def auth_bytes(self) -> bytes:
        """Return the next message to the broker."""
        self._done = self._last_sent
        return self._token

    def receive(self, data: bytes) -> None:
        """Handle a message of the broker."""
        if self._done:
            return
        if not self._context.complete:
            self._token = self._step(data)
            return
        offered = self._unwrapped(data)
        if not offered[0] & _NO_SECURITY_LAYER[0]:
            raise AuthenticationFailed(f"{self._service} requires a SASL security layer")
        answer = _NO_SECURITY_LAYER + b"\0\0\0"
        self._token = self._context.wrap(answer, False).message
        self._last_sent = True

    def is_done(self) -> bool:
        return self._done

    def is_authenticated(self) -> bool:
        return self._done

    def auth_details(self) -> str:
        return f"Authenticated as {self._login} to {self._service} via SASL / GSSAPI"

    def _new_context(self, host: str) -> Any:
        gssapi, login = self._gssapi, self._login
        kerberos = gssapi.MechType.kerberos
        try:
            name = None
            if login.principal:
                name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
            with _Turn(login):
                credentials = gssapi.Credentials(
                    name=name, usage="initiate", mechs=[kerberos], store=login.store()
                )
            service = f"{login.service_name}@{host}"
            target = gssapi.Name(service, gssapi.NameType.hostbased_service)
            return gssapi.SecurityContext(
                name=target, creds=credentials, usage="initiate", mech=kerberos
            )
        except gssapi.exceptions.GSSError as error:
            raise self._explained(error) from None

    def _step(self, data: bytes | None) -> bytes:
        try:
            with _Turn(self._login):
                return self._context.step(data) or b""
        except self._gssapi.exceptions.GSSError as error:
            raise self._explained(error) from None

    def _unwrapped(self, data: bytes) -> bytes:
        try:
            message: bytes = self._context.unwrap(data).message
        except self._gssapi.exceptions.GSSError as error:
            raise self._explained(error) from None
        if len(message) != _LAYERS_BYTES:
            raise AuthenticationFailed(f"{self._service} sent an invalid SASL GSSAPI message")
        return message

    def _explained(self, error: Any) -> ConnectError:
        code = error.min_code - (1 << 32) if error.min_code >= 1 << 31 else error.min_code
        return explained(code, str(error), self._login, self._service)


class _Turn:
    """A lock: only one thread at a time renews the tickets of the process, because libkrb5 empties
    a cache before it fills it."""

    def __init__(self, login: KerberosLogin) -> None:
        self._login = login

    def __enter__(self) -> None:
        if not _lock.acquire(timeout=_LOGIN_TIMEOUT_S):
            raise BrokerUnavailable(f"the Kerberos login of {self._login} waits for the KDC")

    def __exit__(self, *_: object) -> None:
        _lock.release()


def _library() -> Any:
    krb5_conf = system_property("java.security.krb5.conf", os.environ)
    if krb5_conf:
        # libkrb5 has no other way to be told. As in Java, it holds for the process.
        os.environ.setdefault("KRB5_CONFIG", krb5_conf)
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"sasl.mechanism {_MECHANISM} needs the Python package gssapi, which cannot be loaded"
            f" on {socket.gethostname()} ({error}): {_INSTALL}",
            key="sasl.mechanism",
            value=_MECHANISM,
        ) from None
    return gssapi


def _check_keytab(login: KerberosLogin) -> None:
    if login.keytab is None:
        return
    path = login.keytab.removeprefix("FILE:")
    try:
        with open(path, "rb"):
            return
    except OSError as error:
        raise ConfigError(
            f"the keyTab {path} of sasl.jaas.config cannot be read on {socket.gethostname()}:"
            f" {error.strerror}",
            key="sasl.jaas.config",
        ) from None


def explained(code: int, text: str, login: KerberosLogin, service: str) -> ConnectError:
    """Return the error for a code of libkrb5. `text` is GSSAPI's, for codes without a sentence."""
    if code == _KDC_UNREACHABLE or (code == _TICKET_EXPIRED and login.keytab):
        return BrokerUnavailable(f"no KDC answers the Kerberos login of {login}; check krb5.conf")
    remedy = _REMEDIES.get(code)
    if code in (_NO_CACHE, _CACHE_NOT_FOUND, _NO_KEY):
        remedy = (
            "the keytab has no key of this principal; list its principals with klist -k"
            if login.keytab
            else "there is no ticket; name a keyTab in sasl.jaas.config, or run kinit"
        )
    if remedy is None:
        return AuthenticationFailed(f"Kerberos login of {login} to {service} failed: {text}")
    return AuthenticationFailed(
        f"Kerberos login of {login} failed: {remedy.format(service=service)}"
    )


_OLD_KEY = "the KDC refused the keytab's key: export the principal's present key to a new keytab"
_CLOCKS = "clock skew: this host's clock and the KDC's differ by more than krb5.conf's clockskew"
_REMEDIES = {
    _NAME_EXPIRED: "the principal has expired in the KDC",
    _CLIENT_UNKNOWN: "the KDC does not know this principal",
    _SERVER_UNKNOWN: "the KDC has no principal {service}; check sasl.kerberos.service.name and the"
    " broker's advertised host name",
    _KEY_EXPIRED: "the principal's key has expired in the KDC",
    _PREAUTH_FAILED: _OLD_KEY,
    _BAD_INTEGRITY: _OLD_KEY,
    _TICKET_EXPIRED: "the ticket has expired; name a keyTab in sasl.jaas.config, or run kinit",
    _NOT_YET_VALID: _CLOCKS,
    _SKEW: _CLOCKS,
    _SKEW_OF_KDC: _CLOCKS,
    _REALM_UNKNOWN: "krb5.conf names no KDC for the realm",
}

# kafka-python's own knows no keytab and never gets another ticket.
register_mechanism(_MECHANISM, KerberosLogin, KerberosMechanism)
