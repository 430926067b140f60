"""Sign and verify requests between workers (KIP-507).

    X-Connect-Authorization: base64 of MAC(session key, body)
    X-Connect-Request-Signature-Algorithm: Java's name of the MAC, HmacSHA256 by default

Pure functions, safe to call from any thread. Errors contain no keys.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

from connect.errors import CorruptData

__all__ = ["ALGORITHM_HEADER", "KEY_BYTES", "SIGNATURE_HEADER", "SUPPORTED", "sign", "verify"]

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"

_HASHES = {
    "HmacMD5": hashlib.md5,
    "HmacSHA1": hashlib.sha1,
    "HmacSHA224": hashlib.sha224,
    "HmacSHA256": hashlib.sha256,
    "HmacSHA384": hashlib.sha384,
    "HmacSHA512": hashlib.sha512,
    "HmacSHA3-224": hashlib.sha3_224,
    "HmacSHA3-256": hashlib.sha3_256,
    "HmacSHA3-384": hashlib.sha3_384,
    "HmacSHA3-512": hashlib.sha3_512,
}

SUPPORTED = frozenset(_HASHES)
"""Java's names of the supported signature algorithms. They are case-sensitive."""

KEY_BYTES: Mapping[str, int] = {
    "HmacMD5": 64,
    "HmacSHA1": 64,
    "HmacSHA224": 28,
    "HmacSHA256": 32,
    "HmacSHA384": 48,
    "HmacSHA512": 64,
    "HmacSHA3-224": 28,
    "HmacSHA3-256": 32,
    "HmacSHA3-384": 48,
    "HmacSHA3-512": 64,
}
"""The length in bytes of keys that Java generates. A Java leader replaces keys of another
length.
"""


def sign(key: bytes, algorithm: str, body: bytes) -> str:
    """Return the value of the signature header for this body; an empty body if a request has none.

    Raises `CorruptData` for an algorithm that is not in `SUPPORTED`.
    """
    return base64.b64encode(_mac(key, algorithm, body)).decode()


def verify(key: bytes, algorithm: str, body: bytes, signature: str) -> bool:
    """Return whether `signature` is the signature of this body, compared in constant time.

    Raises `CorruptData` for a signature that is not base64, or an unsupported algorithm.
    """
    expected = _mac(key, algorithm, body)
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptData(f"the request signature is not valid base64: {error}") from error
    return hmac.compare_digest(expected, given)


def _mac(key: bytes, algorithm: str, body: bytes) -> bytes:
    digest = _HASHES.get(algorithm)
    if digest is None:
        raise CorruptData(
            f"unsupported signature algorithm {algorithm!r};"
            f" valid algorithms are {', '.join(sorted(SUPPORTED))}"
        )
    return hmac.new(key, body, digest).digest()
