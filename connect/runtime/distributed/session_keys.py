"""The session key that signs requests between workers (KIP-507): making, renewing, verifying."""

from __future__ import annotations

import secrets

from connect.errors import ConnectError, CorruptData
from connect.protocol.signatures import SUPPORTED, verify
from connect.runtime.distributed.group_config import DistributedConfig
from connect.runtime.errors import BadRequest, Forbidden
from connect.storage.config_records import SessionKey

__all__ = ["NoSessionKey", "SessionKeys"]


class NoSessionKey(ConnectError):
    """A signed request came before this worker has read a key."""

    retriable = True
    http_status = 503


class SessionKeys:
    """The rules of one worker's config. Pure but for the randomness of new keys."""

    def __init__(self, config: DistributedConfig) -> None:
        self._config = config

    def new_key(self, now_ms: int) -> SessionKey:
        key = secrets.token_bytes(self._config.key_bytes)
        return SessionKey(key, self._config.key_algorithm, now_ms)

    def renewal_due(self, key: SessionKey | None, now_ms: int) -> bool:
        """Whether a leader has to write a new key now: for want of one, since this one was made in
        another way than ours, or because it is too old."""
        if key is None or not self._made_as_ours(key):
            return True
        expires = self.expires_ms(key)
        return expires is not None and now_ms >= expires

    def expires_ms(self, key: SessionKey) -> int | None:
        """The time when a leader replaces the key; None if keys do not expire."""
        ttl = self._config.key_ttl_ms
        return key.created_ms + ttl if ttl > 0 else None

    def check(
        self, key: SessionKey | None, signature: tuple[str | None, str | None], body: bytes
    ) -> None:
        """Return if `signature`, (algorithm, base64 MAC), is right for `body`.

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
