"""An issuer of RS256 tokens behind a `TokenServer`, and brokers that check them by its key set."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from connect.clock import SYSTEM_CLOCK
from tests.support.security.secure_listeners import LOGIN
from tests.support.security.token_server import TokenServer, running_token_server

__all__ = ["CLIENT", "TokenIssuer", "running_issuer"]

CLIENT, SECRET = "mirror-client", "secret-of-the-client"
_AUDIENCE = "kafka-brokers"
_ASSERTION_AUDIENCE = "token-endpoint"
_ISSUER = "https://issuer.test"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_MODULE = f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required"
_ALGORITHM = "RS256"


class TokenIssuer:
    """Gives a token for `CLIENT`'s secret, and for an assertion that the client's key signs.

    What it signs may be changed by its fields, which count for the next token.
    """

    def __init__(self, server: TokenServer, folder: Path) -> None:
        self.server = server
        self.audience, self.issuer, self.life_s = _AUDIENCE, _ISSUER, 300
        self.grants: list[str] = []
        """The kinds of requests that it gave a token for."""
        self._clients_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._client_key_file = folder / "client-key.pem"
        self._client_key_file.write_bytes(
            self._clients_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        self._lock = threading.Lock()
        self._key, self._key_id = self._new_key("first")
        server.keys = self._key_set()
        server.judge = self._judge

    @contextmanager
    def unknown_key(self) -> Iterator[None]:
        """Tokens are signed with a key that the brokers do not find in the key set."""
        known = self._key, self._key_id
        self._key, self._key_id = self._new_key("unknown")
        try:
            yield
        finally:
            self._key, self._key_id = known

    def broker_properties(self, listener: str) -> dict[str, str]:
        """Of a broker that checks signature, issuer and audience with Kafka's own validator. Its
        JVM needs `jvm_flag`."""
        prefix = f"listener.name.{listener}"
        handler = f"{LOGIN}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        return {
            f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{_MODULE};",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": handler,
            f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.server.keys_url,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience": _AUDIENCE,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.issuer": _ISSUER,
        }

    @property
    def jvm_flag(self) -> str:
        """Lets a broker ask for the key set."""
        return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.server.keys_url}"

    def client_credentials(self) -> dict[str, str]:
        """Client properties that log in with the client's secret."""
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{_MODULE} clientId="{CLIENT}" clientSecret="{SECRET}";',
            "sasl.oauthbearer.token.endpoint.url": self.server.url,
        }

    def assertion(self) -> dict[str, str]:
        """Client properties that log in with a signed assertion."""
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{_MODULE};",
            "sasl.oauthbearer.jwt.retriever.class": f"{LOGIN}.oauthbearer.JwtBearerJwtRetriever",
            "sasl.oauthbearer.token.endpoint.url": self.server.url,
            "sasl.oauthbearer.assertion.private.key.file": str(self._client_key_file),
            "sasl.oauthbearer.assertion.claim.iss": CLIENT,
            "sasl.oauthbearer.assertion.claim.sub": CLIENT,
            "sasl.oauthbearer.assertion.claim.aud": _ASSERTION_AUDIENCE,
        }

    def _new_key(self, key_id: str) -> tuple[rsa.RSAPrivateKey, str]:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048), key_id

    def _key_set(self) -> bytes:
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return json.dumps(
            {"keys": [{**key, "kid": self._key_id, "use": "sig", "alg": _ALGORITHM}]}
        ).encode()

    def _judge(self, form: dict[str, str], authorization: str | None) -> tuple[int, bytes]:
        grant = form.get("grant_type")
        if grant == "client_credentials":
            expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
            granted = authorization == f"Basic {expected}"
        else:
            granted = grant == _GRANT and self._is_ours(form.get("assertion", ""))
        if not granted:
            return 401, b'{"error": "invalid_client"}'
        with self._lock:
            self.grants.append(str(grant))
        answer = {"access_token": self._token(), "token_type": "Bearer", "expires_in": self.life_s}
        return 200, json.dumps(answer).encode()

    def _is_ours(self, assertion: str) -> bool:
        try:
            jwt.decode(
                assertion,
                self._clients_key.public_key(),
                algorithms=[_ALGORITHM],
                audience=_ASSERTION_AUDIENCE,
                issuer=CLIENT,
            )
        except jwt.InvalidTokenError:
            return False
        return True

    def _token(self) -> str:
        now_s = SYSTEM_CLOCK.now_ms() // 1000
        claims = {
            "iss": self.issuer,
            "sub": CLIENT,
            "aud": self.audience,
            "scope": "kafka",
            "iat": now_s - 1,
            "exp": now_s + self.life_s,
        }
        return str(
            jwt.encode(claims, self._key, algorithm=_ALGORITHM, headers={"kid": self._key_id})
        )


@contextmanager
def running_issuer(folder: Path) -> Iterator[TokenIssuer]:
    """`folder`: for the client's key."""
    with running_token_server() as server:
        yield TokenIssuer(server, folder)
