"""The session keys of a group of workers, as its config topic has them, and requests signed with
them."""

from __future__ import annotations

from connect.protocol.signatures import ALGORITHM_HEADER, SIGNATURE_HEADER, sign
from connect.storage.config_records import SessionKey, decode_record
from tests.support.records.reading import read_partition
from tests.support.waiting import wait_until

__all__ = ["next_key", "signed"]

_ALGORITHM = "HmacSHA256"


def next_key(
    servers: str, topic: str, timeout_s: float, after: SessionKey | None = None
) -> SessionKey:
    """The newest key, once there is another than `after`."""

    def found() -> SessionKey | None:
        records = (decode_record(r.key, r.value) for r in read_partition(servers, topic))
        keys = [record for record in records if isinstance(record, SessionKey)]
        return keys[-1] if keys and keys[-1] != after else None

    key = wait_until(found, timeout_s, f"a session key in {topic}")
    assert key is not None
    return key


def signed(key: SessionKey | None, body: bytes = b"") -> dict[str, str]:
    """Headers of a request to a worker; without a signature if there is no key."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers[ALGORITHM_HEADER] = _ALGORITHM
        headers[SIGNATURE_HEADER] = sign(key.key, _ALGORITHM, body)
    return headers
