import gzip
import random
import zlib
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import CorruptData
from connect.protocol.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
)

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
PACKING = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"".join(b"line %d of something that compresses\n" % n for n in range(10_000))
RANDOM = random.Random(1).randbytes(200_000)
EVENTS = b"".join(
    b'{"id":%d,"who":"%s"}\n' % (n, RANDOM[n : n + 4].hex().encode()) for n in range(9000)
)
SHAPES = {
    "empty": b"",
    "one byte": b"x",
    "text": TEXT,
    "zeros": bytes(3_000_000),
    "random": RANDOM,
    "one lz4 block": TEXT[: 64 * 1024],
    "one byte more": TEXT[: 64 * 1024 + 1],
}


def named(codec: int) -> str:
    return CODEC_NAMES[codec]


@pytest.mark.parametrize("codec", CODECS, ids=named)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("level", [None, 1, 4, 9])
def test_decompress_undoes_compress(codec: int, shape: str, level: int | None) -> None:
    data = SHAPES[shape]
    assert decompress(codec, compress(codec, memoryview(data), level)) == data


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD], ids=named)
def test_a_higher_level_compresses_better(codec: int) -> None:
    assert len(compress(codec, EVENTS, 9)) < len(compress(codec, EVENTS, 1))


@pytest.mark.parametrize("codec", PACKING, ids=named)
def test_text_becomes_smaller(codec: int) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) // 2


@pytest.mark.parametrize("codec", PACKING, ids=named)
def test_the_limit_holds_to_the_byte(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, limit=len(TEXT)) == TEXT
    with pytest.raises(CorruptData, match=f"{CODEC_NAMES[codec]} data .*more than"):
        decompress(codec, packed, limit=len(TEXT) - 1)


@pytest.mark.parametrize("codec", PACKING, ids=named)
def test_a_bomb_stops_at_the_limit(codec: int) -> None:
    with pytest.raises(CorruptData, match="more than 1000000 bytes"):
        decompress(codec, compress(codec, bytes(40_000_000)), limit=1_000_000)


@pytest.mark.parametrize("codec", PACKING, ids=named)
def test_every_truncation_is_corrupt_data(codec: int) -> None:
    packed = bytes(compress(codec, TEXT[:2000]))
    blocks = {16} if codec == SNAPPY else set()  # a xerial stream may end after its header
    for end in set(range(len(packed))) - blocks:
        with pytest.raises(CorruptData):
            decompress(codec, packed[:end])


@pytest.mark.parametrize("codec", PACKING, ids=named)
@given(junk=st.binary(max_size=200))
def test_junk_is_data_or_corrupt_data(codec: int, junk: bytes) -> None:
    with suppress(CorruptData):
        decompress(codec, junk, limit=1_000_000)


@pytest.mark.parametrize("codec", PACKING, ids=named)
@settings(max_examples=200)
@given(data=st.data())
def test_flipped_bytes_are_data_or_corrupt_data(codec: int, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:3000] + RANDOM[:50]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptData):
        decompress(codec, packed, limit=1_000_000)


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(CorruptData, match=f"unknown compression codec {codec}"):
        decompress(codec, b"x")
    with pytest.raises(CorruptData, match=f"unknown compression codec {codec}"):
        compress(codec, b"x")


def test_snappy_is_written_as_java_does_in_blocks_of_32_kib() -> None:
    packed = memoryview(bytes(compress(SNAPPY, TEXT[:40_000])))
    assert bytes(packed[:16]).hex() == "82534e415050590000000001" + "00000001"
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == TEXT[:32_768]


def test_snappy_is_read_as_librdkafka_writes_it() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_snappy_streams_may_follow_one_another() -> None:
    stream = bytes(compress(SNAPPY, b"one")) + bytes(compress(SNAPPY, b"two"))
    assert decompress(SNAPPY, stream) == b"onetwo"


def test_lz4_blocks_are_independent_and_without_checksums() -> None:
    packed = bytes(compress(LZ4, TEXT))
    assert packed[:7].hex() == "04224d18604082"
    assert packed[-4:] == bytes(4)
    assert bytes(cramjam.lz4.decompress(packed)) == TEXT


def test_lz4_with_linked_blocks_is_refused_as_java_refuses_it() -> None:
    with pytest.raises(CorruptData, match="linked blocks"):
        decompress(LZ4, bytes(cramjam.lz4.compress(TEXT)))


def test_lz4_header_checksum_of_old_clients_is_not_looked_at() -> None:
    packed = bytearray(compress(LZ4, TEXT))
    packed[6] ^= 0xFF
    assert decompress(LZ4, packed) == TEXT


def test_gzip_members_may_follow_one_another() -> None:
    assert decompress(GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


def test_members_that_make_nothing_are_not_read_for_ever() -> None:
    with pytest.raises(CorruptData, match="more than 1000 members"):
        decompress(GZIP, gzip.compress(b"") * 1001)


def test_gzip_is_what_others_read() -> None:
    assert zlib.decompress(compress(GZIP, TEXT), wbits=31) == TEXT


def test_zstd_frames_without_content_size_are_read() -> None:
    packer = cramjam.zstd.Compressor()
    packer.compress(TEXT)
    packed = bytes(packer.flush())
    packer.compress(TEXT)
    packed += bytes(packer.finish())
    assert packed[4] >> 5 == 0  # neither a content size nor a single segment
    assert decompress(ZSTD, packed) == TEXT + TEXT
    assert decompress(ZSTD, packed, limit=2 * len(TEXT)) == TEXT + TEXT
    with pytest.raises(CorruptData):
        decompress(ZSTD, packed, limit=2 * len(TEXT) - 1)


def test_a_zstd_frame_that_claims_a_terabyte_takes_no_memory() -> None:
    frame = bytes.fromhex("28b52ffd") + bytes([0b1110_0000]) + (1 << 40).to_bytes(8, "little")
    with pytest.raises(CorruptData):
        decompress(ZSTD, frame + (1 | 5 << 3).to_bytes(3, "little") + b"hello")
