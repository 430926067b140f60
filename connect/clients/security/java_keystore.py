"""Read Java's key store format JKS, as written by `keytool -storetype JKS`.

Layout (big-endian): magic 0xFEEDFEED, version 2 (or 1), count; then entries: tag (1 private key,
2 trusted certificate), alias UTF, creation time in ms (8 bytes), and

    tag 1: length, EncryptedPrivateKeyInfo (DER); chain count; certificates
    tag 2: one certificate

A certificate is: type UTF (version 2 only), length, DER. At the end the SHA-1 digest over the
password in UTF-16BE, the words "Mighty Aphrodite" and everything before.

A private key is protected by a proprietary algorithm of Sun (OID 1.3.6.1.4.1.42.2.17.1.1): 20 bytes
of salt, the key XORed with a SHA-1 chain that starts from password and salt, and a SHA-1 digest of
password and key.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

from connect.errors import CorruptData

__all__ = ["JksEntry", "WrongPassword", "is_jks", "read_jks"]

_MAGIC = 0xFEEDFEED
_WHITENER = b"Mighty Aphrodite"
_DIGEST_SIZE = 20
_PRIVATE_KEY, _TRUSTED_CERTIFICATE = 1, 2
_SUN_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")


class WrongPassword(CorruptData):
    """The digest does not match: the password is wrong, or the bytes were changed."""


@dataclass(frozen=True, slots=True)
class JksEntry:
    """A private key with its certificate chain, or one trusted certificate without a key. All
    DER.
    """

    alias: str
    certificates: tuple[bytes, ...]
    protected_key: bytes | None = field(default=None, repr=False)

    def private_key(self, password: str) -> bytes:
        """Return the key as PKCS#8 DER. Raises WrongPassword."""
        if self.protected_key is None:
            raise CorruptData(f"Entry {self.alias} holds no private key")
        return _unprotect(self.protected_key, password)


def is_jks(data: bytes) -> bool:
    """Return whether these bytes start like a JKS store."""
    return data[:4] == _MAGIC.to_bytes(4, "big")


def read_jks(data: bytes, password: str | None) -> list[JksEntry]:
    """Return the entries of a store. Without a password its digest is not checked, as in Java.

    Raises WrongPassword, or CorruptData for bytes that are not a JKS store.
    """
    if not is_jks(data) or len(data) < 12 + _DIGEST_SIZE:
        raise CorruptData("Not a JKS key store")
    body, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise WrongPassword("The key store's password is wrong, or the file is corrupt")
    try:
        return _read_entries(_Reader(body))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptData(f"A JKS key store of {len(data)} bytes is cut off or damaged") from error


class _Reader:
    """A read position in bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 4

    def integer(self) -> int:
        value: int = struct.unpack_from(">I", self._data, self._at)[0]
        self._at += 4
        return value

    def skip(self, size: int) -> None:
        self._at += size

    def text(self) -> str:
        (size,) = struct.unpack_from(">H", self._data, self._at)
        self._at += 2
        return self._take(size).decode("utf-8", "replace")

    def blob(self) -> bytes:
        return self._take(self.integer())

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise IndexError(size)
        self._at += size
        return taken


def _read_entries(reader: _Reader) -> list[JksEntry]:
    version = reader.integer()
    if version not in (1, 2):
        raise CorruptData(f"JKS version {version} is not supported; use version 1 or 2")
    return [_read_entry(reader, version) for _ in range(reader.integer())]


def _read_entry(reader: _Reader, version: int) -> JksEntry:
    tag, alias = reader.integer(), reader.text()
    reader.skip(8)
    if tag == _PRIVATE_KEY:
        protected = reader.blob()
        chain = tuple(_read_certificate(reader, version) for _ in range(reader.integer()))
        return JksEntry(alias, chain, protected)
    if tag == _TRUSTED_CERTIFICATE:
        return JksEntry(alias, (_read_certificate(reader, version),))
    raise CorruptData(f"JKS entry {alias} has the unknown tag {tag}")


def _read_certificate(reader: _Reader, version: int) -> bytes:
    if version == 2:
        reader.text()
    return reader.blob()


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _unprotect(protected: bytes, password: str) -> bytes:
    content = _encrypted_data(protected)
    salt, sealed, digest = content[:20], content[20:-20], content[-20:]
    secret = _utf16(password)
    stream = bytearray()
    block = salt
    while len(stream) < len(sealed):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(sealed, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), digest):
        raise WrongPassword("The private key's password is wrong")
    return key


def _encrypted_data(protected: bytes) -> bytes:
    """Return the OCTET STRING of `SEQUENCE { SEQUENCE { OID, ... }, OCTET STRING }`."""
    outer, _ = _der_value(protected, 0)
    algorithm, after = _der_value(outer, 0)
    if not algorithm.startswith(_SUN_KEY_PROTECTOR):
        raise CorruptData("The private key is encrypted with an algorithm that JKS does not define")
    content, _ = _der_value(outer, after)
    if len(content) < 2 * _DIGEST_SIZE:
        raise CorruptData("The protected private key is too short")
    return content


def _der_value(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the content of the DER element at `at`, and the position after it."""
    try:
        size, start = data[at + 1], at + 2
        if size & 0x80:
            width = size & 0x7F
            size, start = int.from_bytes(data[start : start + width], "big"), start + width
    except IndexError as error:
        raise CorruptData("The protected private key is cut off") from error
    return data[start : start + size], start + size
