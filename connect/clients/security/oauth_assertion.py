"""OAUTHBEARER tokens for an assertion: a JWT that a private key signs (RFC 7523), as in Java.

Either a file has the assertion, which another program renews, or it is made here for each request:
its claims are those of the properties, then those of a template file, then the times and the id.
Key, template and assertion are read again each time, so that replaced files take effect. Only a
signature needs `cryptography`, which takes 9 MB of a process.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from connect.clients.security.oauth import EndpointProvider, TokenEndpoint
from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.secrets import remember
from connect.config.types import SecretStr, invalid_value
from connect.errors import ConfigError

__all__ = ["Assertion", "AssertionProvider", "FileAssertion", "SignedAssertion"]

_KEYS = "sasl.oauthbearer.assertion."
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ES256_BYTES = 32


class Assertion(Protocol):
    """Makes assertions."""

    def text(self, now_ms: int) -> str:
        """Return an assertion. Raises ConfigError with the key at fault."""


@dataclass(frozen=True, slots=True)
class FileAssertion:
    """The content of a file."""

    path: Path

    def text(self, now_ms: int) -> str:
        return _read(_KEYS + "file", self.path).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedAssertion:
    """A JWT made of claims, and signed here. `algorithm`: RS256 or ES256."""

    algorithm: str
    key_file: Path
    passphrase: SecretStr | None = field(default=None, repr=False)
    claims: Mapping[str, str]
    template_file: Path | None = None
    life_s: int
    before_s: int
    """How many seconds before its creation it becomes valid, because clocks differ."""
    has_id: bool = False

    def text(self, now_ms: int) -> str:
        header, payload = self._template()
        now_s = now_ms // 1000
        times: dict[str, Any] = {
            "iat": now_s,
            "exp": now_s + self.life_s,
            "nbf": now_s - self.before_s,
        }
        if self.has_id:
            times["jti"] = str(uuid.uuid4())
        parts = (
            {**header, "alg": self.algorithm, "typ": "JWT"},
            {**self.claims, **payload, **times},
        )
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_encoded(self._signature(signed.encode()))}"

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.template_file is None:
            return {}, {}
        key = _KEYS + "template.file"
        try:
            document = json.loads(_read(key, self.template_file))
            header, payload = document.get("header", {}), document.get("payload", {})
            return {**header}, {**payload}
        except (ValueError, AttributeError, TypeError) as error:
            reason = 'must be JSON with objects "header" and "payload"'
            raise invalid_value(key, str(self.template_file), reason) from error

    def _signature(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        key = self._private_key()
        if self.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
            return key.sign(data, padding.PKCS1v15(), SHA256())
        if (
            self.algorithm == "ES256"
            and isinstance(key, ec.EllipticCurvePrivateKey)
            and isinstance(key.curve, ec.SECP256R1)
        ):
            r, s = decode_dss_signature(key.sign(data, ec.ECDSA(SHA256())))
            return r.to_bytes(_ES256_BYTES, "big") + s.to_bytes(_ES256_BYTES, "big")
        needed = "an RSA key" if self.algorithm == "RS256" else "an EC key of the curve P-256"
        reason = f"{_KEYS}algorithm {self.algorithm} needs {needed}"
        raise invalid_value(_KEYS + "private.key.file", str(self.key_file), reason)

    def _private_key(self) -> object:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = _KEYS + "private.key.file"
        text = _read(key, self.key_file)
        secret = None if self.passphrase is None else self.passphrase.reveal().encode()
        try:
            # A passphrase for a key that is not encrypted is an error there, and not in Java.
            return load_pem_private_key(text.encode(), secret if "ENCRYPTED" in text else None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            reason = f"is no PEM private key, or {_KEYS}private.key.passphrase is wrong or missing"
            raise invalid_value(key, str(self.key_file), reason) from error


class AssertionProvider(EndpointProvider):
    """Gets tokens for assertions.

    With `client` the assertion stands for the client's secret in a request for client credentials;
    else it is the grant itself.
    """

    refused = (
        "refused the assertion; check its issuer, subject and audience (sasl.oauthbearer.assertion."
        "claim.*), the key that signs it, the scope, and this machine's clock"
    )

    def __init__(
        self,
        assertion: Assertion,
        endpoint: TokenEndpoint,
        extensions: Mapping[str, str],
        clock: Clock = SYSTEM_CLOCK,
        *,
        scope: str | None = None,
        client: bool = False,
        client_id: str | None = None,
    ) -> None:
        super().__init__(endpoint, extensions, clock)
        self._assertion = assertion
        self._scope = scope
        self._client = client
        self._client_id = client_id

    def _form(self, now_ms: int) -> dict[str, str]:
        text = self._assertion.text(now_ms)
        remember([text])
        if self._client:
            form = {
                "grant_type": "client_credentials",
                "client_assertion_type": _CLIENT_ASSERTION,
                "client_assertion": text,
            }
            if self._client_id:
                form["client_id"] = self._client_id
        else:
            form = {"grant_type": _GRANT, "assertion": text}
        if self._scope and self._scope.strip():
            form["scope"] = self._scope.strip()
        return form


def _read(key: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(
            f"Invalid value {path} for configuration {key}: cannot be read: {reason}", key=key
        ) from error


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
