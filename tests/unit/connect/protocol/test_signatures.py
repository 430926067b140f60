import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData
from connect.protocol.signatures import KEY_BYTES, SUPPORTED, sign, verify

KEY = bytes(range(32))


def test_signatures_are_those_of_java() -> None:
    assert sign(KEY, "HmacSHA256", b'[{"a":"b"}]') == "Eroe1tB3QaSe5EJ0n/U/3E2UQZRh4D5G73yb9AU1xkM="
    assert sign(KEY, "HmacSHA256", b"") == "04tCCW2A9F+Ca0Sp1WB95ySWpBXT9KGoyI47udqNwcs="


@given(st.sampled_from(sorted(SUPPORTED)), st.binary(), st.binary())
def test_a_signature_fits_its_own_body_only(algorithm: str, body: bytes, other: bytes) -> None:
    signature = sign(KEY, algorithm, body)
    assert verify(KEY, algorithm, body, signature)
    assert verify(KEY, algorithm, other, signature) == (other == body)
    assert not verify(KEY[1:], algorithm, body, signature)


def test_every_algorithm_has_a_key_length() -> None:
    assert set(KEY_BYTES) == SUPPORTED
    assert KEY_BYTES["HmacSHA256"] == 32


def test_what_is_not_base64_is_no_signature() -> None:
    for signature in ("no base64!", "é", "abc"):
        with pytest.raises(CorruptData, match="base64"):
            verify(KEY, "HmacSHA256", b"", signature)


def test_names_of_algorithms_are_compared_as_written() -> None:
    with pytest.raises(CorruptData, match="'hmacsha256'; valid algorithms are HmacMD5"):
        sign(KEY, "hmacsha256", b"")
