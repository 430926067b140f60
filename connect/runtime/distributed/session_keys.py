"""The session key that signs requests between workers (KIP-507): create, renew and verify it."""

from __future__ import annotations

import secrets

from connect.errors import ConnectError, CorruptData
from connect.protocol.signatures import SUPPORTED, verify
from connect.runtime.distributed.group_config import DistributedConfig
from connect.runtime.errors import BadRequest, Forbidden
from connect.storage.config_records import SessionKey

__all__ = ["NoSessionKey", "SessionKeys"]


class NoSessionKey(ConnectError):
    """A signed request arrived before this worker has read a session key."""

    retriable = True
    http_status = 503


class SessionKeys:
    """Session key rules from one worker's config. Pure except for the randomness of new keys."""

    def __init__(self, config: DistributedConfig) -> None:
        self._config = config

    def new_key(self, now_ms: int) -> SessionKey:
        key = secrets.token_bytes(self._config.key_bytes)
        return SessionKey(key, self._config.key_algorithm, now_ms)

    def renewal_due(self, key: SessionKey | None, now_ms: int) -> bool:
        """Return whether the leader must write a new key now.

        That is so without a key, if its algorithm or size differs from the config, or if it is too
        old.
        """
        if key is None or not self._made_as_ours(key):
            return True
        expires = self.expires_ms(key)
        return expires is not None and now_ms >= expires

    def expires_ms(self, key: SessionKey) -> int | None:
        """Return the time when a leader replaces the key, or None if keys do not expire."""
        ttl = self._config.key_ttl_ms
        return key.created_ms + ttl if ttl > 0 else None

    def check(
        self, key: SessionKey | None, signature: tuple[str | None, str | None], body: bytes
    ) -> None:
        """Verify that `signature`, (algorithm, base64 MAC), is right for `body`.

        Raises `BadRequest`, `Forbidden` or `NoSessionKey`, with Kafka Connect's texts.
        """
        algorithm, mac = signature
        if algorithm is None or mac is None:
            raise BadRequest("Internal request missing required signature")
        if algorithm not in self._config.verification_algorithms or algorithm not in SUPPORTED:
            raise BadRequest(
                f"This worker does not support the '{algorithm}' key signing algorithm used by"
                " other workers. This worker is currently configured to use:"
                f" {list(self._config.verification_algorithms)}. Check that all workers'"
                " configuration files permit the same set of signature algorithms, and correct any"
                " misconfigured worker and restart it."
            )
        if key is None:
            raise NoSessionKey(
                "This worker is still starting up and has not been able to read a session key from"
                " the config topic yet"
            )
        try:
            right = verify(key.key, algorithm, body, mac)
        except CorruptData as error:
            raise BadRequest(f"Internal request contained an unreadable signature: {error}") from (
                error
            )
        if not right:
            raise Forbidden("Internal request contained invalid signature.")

    def _made_as_ours(self, key: SessionKey) -> bool:
        return (
            key.algorithm == self._config.key_algorithm and len(key.key) == self._config.key_bytes
        )
