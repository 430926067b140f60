"""The key and trust stores that `ssl.*` names, if it names any.

`key_stores` imports `cryptography`, which takes 9 MB of a process. A worker without TLS, or with
the system's certificates alone, does without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connect.clients.security.key_stores import KeyPair

__all__ = ["key_pair", "trusted_certificates"]


def key_pair(props: Mapping[str, str]) -> KeyPair | None:
    """Return the client's key from `ssl.keystore.*`, or None if it is not configured.

    Raises ConfigError with the key at fault.
    """
    if not _is_configured(props, "ssl.keystore."):
        return None
    from connect.clients.security.key_stores import read_key_pair

    return read_key_pair(props)


def trusted_certificates(props: Mapping[str, str]) -> str | None:
    """Return the certificates of `ssl.truststore.*` as PEM, or None for the system's own.

    Raises ConfigError with the key at fault.
    """
    if not _is_configured(props, "ssl.truststore."):
        return None
    from connect.clients.security.key_stores import read_trusted_certificates

    return read_trusted_certificates(props)


def _is_configured(props: Mapping[str, str], prefix: str) -> bool:
    return any(value for key, value in props.items() if key.startswith(prefix))
