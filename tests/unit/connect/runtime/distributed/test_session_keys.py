"""Session keys: when there is a new one, and which signatures are right (KIP-507)."""

import pytest

from connect.runtime.distributed.session_keys import NoSessionKey, SessionKeys
from connect.runtime.errors import BadRequest, Forbidden
from connect.storage.config_records import SessionKey
from tests.unit.connect.runtime.distributed.properties import config

KEY = SessionKey(bytes(range(32)), "HmacSHA256", 1_000_000)
BODY, MAC = b'[{"a":"b"}]', "Eroe1tB3QaSe5EJ0n/U/3E2UQZRh4D5G73yb9AU1xkM="
HOUR_MS = 3_600_000


def test_new_keys_differ_and_are_as_long_as_those_of_java() -> None:
    keys = SessionKeys(config())
    one, other = keys.new_key(5), keys.new_key(5)
    assert one.key != other.key
    assert (len(one.key), one.algorithm, one.created_ms) == (32, "HmacSHA256", 5)
    assert len(SessionKeys(config(inter_worker_key_size="512")).new_key(5).key) == 64


@pytest.mark.parametrize(
    ("key", "now_ms", "due"),
    [
        (None, 0, True),
        (KEY, KEY.created_ms, False),
        (KEY, KEY.created_ms + HOUR_MS - 1, False),
        (KEY, KEY.created_ms + HOUR_MS, True),
        # The clock of the worker that made it may be ahead of ours.
        (KEY, KEY.created_ms - HOUR_MS, False),
        (SessionKey(bytes(31), "HmacSHA256", KEY.created_ms), KEY.created_ms, True),
        (SessionKey(bytes(32), "HmacSHA512", KEY.created_ms), KEY.created_ms, True),
    ],
)
def test_when_a_leader_writes_a_new_key(key: SessionKey | None, now_ms: int, due: bool) -> None:
    assert SessionKeys(config()).renewal_due(key, now_ms) is due


def test_keys_that_do_not_grow_old_are_kept() -> None:
    keys = SessionKeys(config(inter_worker_key_ttl_ms="0"))
    assert keys.expires_ms(KEY) is None
    assert not keys.renewal_due(KEY, KEY.created_ms + 1000 * HOUR_MS)


def test_a_right_signature_is_accepted() -> None:
    SessionKeys(config()).check(KEY, ("HmacSHA256", MAC), BODY)


@pytest.mark.parametrize("signature", [(None, None), ("HmacSHA256", None), (None, MAC)])
def test_both_headers_are_needed(signature: tuple[str | None, str | None]) -> None:
    with pytest.raises(BadRequest, match=r"^Internal request missing required signature$"):
        SessionKeys(config()).check(KEY, signature, BODY)


@pytest.mark.parametrize("algorithm", ["HmacSHA1", "hmacsha256", "AES"])
def test_only_algorithms_of_the_list_are_accepted(algorithm: str) -> None:
    with pytest.raises(BadRequest, match=f"does not support the '{algorithm}' key signing"):
        SessionKeys(config()).check(KEY, (algorithm, MAC), BODY)


def test_without_a_key_the_request_may_come_again() -> None:
    with pytest.raises(NoSessionKey, match="still starting up") as refused:
        SessionKeys(config()).check(None, ("HmacSHA256", MAC), BODY)
    assert (refused.value.http_status, refused.value.retriable) == (503, True)


def test_wrong_signatures_are_told_from_unreadable_ones() -> None:
    keys = SessionKeys(config())
    with pytest.raises(Forbidden, match=r"^Internal request contained invalid signature\.$"):
        keys.check(KEY, ("HmacSHA256", MAC), BODY + b" ")
    with pytest.raises(Forbidden):
        keys.check(SessionKey(bytes(32), "HmacSHA256", 1), ("HmacSHA256", MAC), BODY)
    for mac in ("no base64", "é"):
        with pytest.raises(BadRequest, match="unreadable signature"):
            keys.check(KEY, ("HmacSHA256", mac), BODY)


def test_no_key_is_ever_printed() -> None:
    assert "\\x00\\x01" not in repr(KEY)
