"""Compression codecs of Kafka's record batches, in the framings that all Kafka clients read.

==== ====== =====================================================================================
id   name   bytes written here
==== ====== =====================================================================================
0    none   the data itself
1    gzip   one gzip member (RFC 1952)
2    snappy xerial stream, as Java's clients write: the 16-byte header, then blocks of up to 32 KiB,
            each a big-endian int32 length and raw snappy. librdkafka writes one raw snappy block
            instead, without a header: both forms are read
3    lz4    one LZ4 frame of independent blocks, without checksums and content size, as Java's
            clients write. Java's reader refuses linked blocks, which most libraries write by
            default: the frame is therefore built here, block by block
4    zstd   one frame (RFC 8878)
==== ====== =====================================================================================

Decompression never produces more than `limit` bytes, and raises CorruptData for malformed input.
Some codec libraries do not verify the checksums inside a frame; the batch's CRC covers those bytes.

Pure functions: safe from any thread. The libraries release the GIL while they work.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import cramjam

from connect.errors import CorruptData

__all__ = [
    "CODEC_NAMES",
    "DEFAULT_LIMIT",
    "GZIP",
    "LZ4",
    "NONE",
    "SNAPPY",
    "ZSTD",
    "Data",
    "compress",
    "decompress",
]

Data = bytes | bytearray | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Codec names as in the property `compression.type`, indexed by codec id."""

DEFAULT_LIMIT = 256 * 1024 * 1024
"""The most bytes that one batch may decompress to: Kafka's default batch limit of 1 MiB at a ratio
of 256:1, far more than real records reach.
"""

_XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"  # magic, version 1, compatible 1
_XERIAL_MAGIC = _XERIAL_HEADER[:8]
_XERIAL_BLOCK = 32 * 1024  # Java's SnappyOutputStream default

_LZ4_MAGIC = 0x184D2204
# Version 01, independent blocks; blocks of up to 64 KiB; and the header checksum of these two.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_BLOCK_SIZES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_STORED = 0x8000_0000  # The top bit of a block's length marks an uncompressed block.
_LZ4_USUAL_RATIO = 8  # Initial buffer size; clearing a full-block buffer costs 2 µs a batch.
_LZ4_MIN_DENSE_LEVEL = 3  # Levels from here on use the slower match finder that compresses better.

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50  # Up to ...5F: skippable frames without data.
_ZSTD_MAX_BLOCK = 128 * 1024  # no block makes more (RFC 8878, 3.1.1.2.4)


def compress(codec: int, data: Data, level: int | None = None) -> Data:
    """Return `data` compressed in the framing of `codec`.

    `level` None means the codec's default; snappy has no levels. Raises CorruptData if the id names
    no codec.
    """
    if codec == NONE:
        return data
    if codec == GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, wbits=31)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return _snappy_compress(data)
    if codec == LZ4:
        return _lz4_compress(data, level)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, 3 if level is None else level))
    raise _unknown(codec)


def decompress(codec: int, data: Data, *, limit: int = DEFAULT_LIMIT) -> Data:
    """Decompress data written by `compress`, a Java client or librdkafka.

    Raises CorruptData if the input is malformed or incomplete, decompresses to more than `limit`
    bytes, or the id names no codec.
    """
    if codec == NONE:
        return data
    try:
        reader = _READERS[codec]
    except KeyError:
        raise _unknown(codec) from None
    try:
        return reader(memoryview(data), limit)
    except (cramjam.DecompressionError, zlib.error, ValueError, IndexError, OverflowError) as error:
        raise CorruptData(f"{CODEC_NAMES[codec]} data cannot be decompressed: {error}") from error


def _unknown(codec: int) -> CorruptData:
    return CorruptData(f"unknown compression codec {codec}; valid codecs are 0 to 4")


def _too_large(codec: int, limit: int) -> CorruptData:
    return CorruptData(f"{CODEC_NAMES[codec]} data decompresses to more than {limit} bytes")


def _cut_off(codec: int) -> CorruptData:
    return CorruptData(f"{CODEC_NAMES[codec]} data ends too early")


# --- gzip

# Empty members make no bytes, but each costs a copy of the rest.
_MOST_MEMBERS = 1000


def _gzip_decompress(data: memoryview, limit: int) -> bytes:
    parts = []
    made = 0
    rest: Data = data
    while rest:  # A stream may consist of several members.
        member = zlib.decompressobj(wbits=31)
        part = member.decompress(rest, limit - made + 1)
        made += len(part)
        if made > limit:
            raise _too_large(GZIP, limit)
        if not member.eof:
            raise _cut_off(GZIP)
        parts.append(part)
        if len(parts) > _MOST_MEMBERS:
            raise CorruptData(f"gzip data has more than {_MOST_MEMBERS} members")
        rest = member.unused_data
    if not parts:
        raise _cut_off(GZIP)
    return parts[0] if len(parts) == 1 else b"".join(parts)


# --- snappy


def _snappy_compress(data: Data) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _snappy_decompress(data: memoryview, limit: int) -> bytes:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _snappy_block(data, 0, limit)
    if len(data) < len(_XERIAL_HEADER):
        raise _cut_off(SNAPPY)
    parts = []
    made = 0
    position = len(_XERIAL_HEADER)
    while position < len(data):
        # The data may consist of several streams.
        if bytes(data[position : position + 8]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        length = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if position + length > len(data):
            raise _cut_off(SNAPPY)
        part = _snappy_block(data[position : position + length], made, limit)
        made += len(part)
        parts.append(part)
        position += length
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_block(block: memoryview, made: int, limit: int) -> bytes:
    if made + cramjam.snappy.decompress_raw_len(block) > limit:
        raise _too_large(SNAPPY, limit)
    return bytes(cramjam.snappy.decompress_raw(block))


# --- lz4


def _lz4_compress(data: Data, level: int | None) -> bytes:
    parts: list[Data] = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        if level is None or level < _LZ4_MIN_DENSE_LEVEL:
            block = memoryview(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = _lz4_dense_block(plain, level)
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _LZ4_STORED).to_bytes(4, "little"), plain)
    parts.append(b"\0\0\0\0")  # End mark.
    return b"".join(parts)


def _lz4_dense_block(plain: memoryview, level: int) -> memoryview:
    # Only the library's frame function takes a compression level. The first block of a frame
    # depends on no other block, and this little data makes a frame of only one block.
    frame = memoryview(cramjam.lz4.compress(plain, level))
    length = int.from_bytes(frame[7:11], "little")
    return frame[11 : 11 + length] if not length & _LZ4_STORED else plain


def _lz4_decompress(data: memoryview, limit: int) -> bytes:
    # FLG: version (2 bits), independent blocks, block checksums, content size, content checksum,
    # reserved, dictionary. The header checksum is not verified because magic 0 writers computed it
    # wrongly.
    if len(data) < len(_LZ4_HEADER) or int.from_bytes(data[:4], "little") != _LZ4_MAGIC:
        raise CorruptData("lz4 data does not begin with an LZ4 frame")
    flags, block_size = data[4], _LZ4_BLOCK_SIZES.get(data[5] >> 4 & 7)
    if flags >> 6 != 1 or flags & 0b11 or block_size is None:
        raise CorruptData(f"lz4 frame descriptor {bytes(data[4:6]).hex()} is not supported")
    if not flags & 0b10_0000:
        raise CorruptData("lz4 frame with linked blocks, which Kafka does not allow")
    checksum_size = 4 if flags & 0b1_0000 else 0
    position = 15 if flags & 0b1000 else 7
    scratch = memoryview(bytearray(min(block_size, _LZ4_USUAL_RATIO * len(data))))
    parts: list[bytes] = []
    made = 0
    while True:
        if position + 4 > len(data):
            raise _cut_off(LZ4)
        length = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if length == 0:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        block = data[position : position + (length & ~_LZ4_STORED)]
        position += len(block) + checksum_size
        if len(block) != length & ~_LZ4_STORED or len(block) > block_size:
            raise _cut_off(LZ4)
        if length & _LZ4_STORED:
            part = bytes(block)
        else:
            try:
                part = _lz4_block(block, scratch)
            except cramjam.DecompressionError:
                if len(scratch) == block_size:
                    raise
                scratch = memoryview(bytearray(block_size))
                part = _lz4_block(block, scratch)
        made += len(part)
        if made > limit:
            raise _too_large(LZ4, limit)
        parts.append(part)


def _lz4_block(block: memoryview, scratch: memoryview) -> bytes:
    made = cramjam.lz4.decompress_block_into(block, scratch, output_len=len(scratch))
    return bytes(scratch[:made])


# --- zstd


def _zstd_decompress(data: memoryview, limit: int) -> Data:
    if _zstd_bound(data) <= limit:
        return bytes(cramjam.zstd.decompress(data))
    # The bound counts whole blocks and may be far too high. Allocate a buffer of the full limit
    # only then, and let the library stop at its end.
    output = bytearray(limit)
    try:
        made = cramjam.zstd.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        raise CorruptData(
            f"zstd data is malformed or decompresses to more than {limit} bytes: {error}"
        ) from error
    del output[made:]
    return output


def _zstd_bound(data: memoryview) -> int:
    """Return an upper bound of the decompressed size, from the frame and block headers alone."""
    position = 0
    bound = 0
    while position < len(data):
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic & ~0xF == _ZSTD_SKIPPABLE:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        if magic != _ZSTD_MAGIC:
            raise CorruptData("zstd data does not begin with a zstd frame")
        made, position = _zstd_frame_bound(data, position + 4)
        bound += made
    if position != len(data) or position == 0:
        raise _cut_off(ZSTD)
    return bound


def _zstd_frame_bound(data: memoryview, position: int) -> tuple[int, int]:
    # Descriptor: content-size flag (2 bits), single segment, unused, reserved, checksum, dictionary
    # id flag (2 bits). Blocks: 3 bytes, little-endian: last (1 bit), type (2 bits), size.
    descriptor = data[position]
    single = descriptor >> 5 & 1
    position += 1 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    position += (single, 2, 4, 8)[descriptor >> 6]
    made = 0
    last = 0
    while not last:
        if position + 3 > len(data):
            raise _cut_off(ZSTD)
        header = int.from_bytes(data[position : position + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == 1 else size)
        made += _ZSTD_MAX_BLOCK if kind == 2 else size
    return made, position + (4 if descriptor & 4 else 0)


_READERS: dict[int, Callable[[memoryview, int], Data]] = {
    GZIP: _gzip_decompress,
    SNAPPY: _snappy_decompress,
    LZ4: _lz4_decompress,
    ZSTD: _zstd_decompress,
}
