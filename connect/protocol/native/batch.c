#include "batch.h"

#include <string.h>

#define MIN_RECORD_SIZE 7
#define LZ4_MAGIC 0x184D2204u
#define LZ4_STORED 0x80000000u
#define LZ4_MIN_BLOCK_SIZE 65536 /* the smallest size that a frame can declare for its blocks */
/* A block ends with at least five literals, and its last match begins at least twelve bytes before
 * the end (LZ4 block format, "End of block conditions"). */
#define LZ4_LAST_LITERALS 5
#define LZ4_LAST_MATCH 12
#define LZ4_MIN_MATCH 4

static uint32_t big32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t big64(const uint8_t *at) { return (uint64_t)big32(at) << 32 | big32(at + 4); }

static uint32_t little32(const uint8_t *at) {
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

HeaderKind read_header(const uint8_t *data, size_t room, Header *header) {
    if (room < HEADER_SIZE) return room > 16 && data[16] != 2 ? ODD : CUT_OFF;
    header->base_offset = (int64_t)big64(data);
    header->size = (int64_t)(int32_t)big32(data + 8) + LOG_OVERHEAD;
    header->leader_epoch = (int32_t)big32(data + 12);
    header->crc = big32(data + 17);
    header->attributes = (int16_t)(data[21] << 8 | data[22]);
    header->last_delta = (int32_t)big32(data + 23);
    header->base_timestamp = (int64_t)big64(data + 27);
    header->max_timestamp = (int64_t)big64(data + 35);
    header->producer_id = (int64_t)big64(data + PRODUCER_AT);
    header->count = (int32_t)big32(data + 57);
    if (data[16] != 2 || header->size < HEADER_SIZE || header->last_delta < 0 || header->count < 0
        || header->base_offset < 0
        || header->base_offset > INT64_MAX - 1 - (int64_t)header->last_delta)
        return ODD;
    return (uint64_t)header->size > room ? CUT_OFF : WHOLE;
}

/* Reads a zigzag varint of at most `bits` bits. Returns the position after it, or NULL. */
static const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, int bits, int64_t *value) {
    uint64_t found = 0;
    int most = (bits + 6) / 7;
    for (int n = 0; n < most && at < end; n++) {
        uint8_t byte = *at++;
        if (7 * n + 7 > bits && byte >> (bits - 7 * n)) return NULL;
        found |= (uint64_t)(byte & 0x7F) << 7 * n;
        if (byte < 0x80) {
            *value = (int64_t)(found >> 1 ^ (0 - (found & 1)));
            return at;
        }
    }
    return NULL;
}

uint8_t *write_varint(uint8_t *to, int64_t value) {
    uint64_t rest = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; rest >= 0x80; rest >>= 7) *to++ = (uint8_t)(rest | 0x80);
    *to++ = (uint8_t)rest;
    return to;
}

size_t varint_size(int64_t value) {
    uint64_t rest = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    size_t size = 1;
    for (; rest >= 0x80; rest >>= 7) size++;
    return size;
}

/* Reads the head of the record at `at` with this offset delta. `size`: of the record from `at` on.
 * Returns the position after the head, or NULL. */
static const uint8_t *read_head(const Records *records, const uint8_t *at, const uint8_t *end,
                                int32_t offset_delta, size_t *size, int64_t *timestamp) {
    int64_t length, stamp, delta;
    const uint8_t *begin = at;
    at = read_varint(at, end, 32, &length);
    if (at == NULL || length < 0 || at == end) return NULL;
    *size = (size_t)(at - begin) + (size_t)length;
    at = read_varint(at + 1, end, 64, &stamp); /* past the attributes: none is defined */
    if (at == NULL) return NULL;
    at = read_varint(at, end, 32, &delta);
    if (at == NULL || delta != offset_delta || (size_t)(at - begin) > *size) return NULL;
    *timestamp = records->header->attributes & LOG_APPEND_TIME
                     ? records->header->max_timestamp
                     : (int64_t)((uint64_t)records->header->base_timestamp + (uint64_t)stamp);
    return at;
}

void open_records(const uint8_t *data, const Header *header, Records *records) {
    records->header = header;
    records->at = data + HEADER_SIZE;
    records->end = data + header->size;
    records->index = 0;
}

static int next_plain(Records *records, Record *record) {
    size_t size;
    const uint8_t *at = records->at;
    const uint8_t *tail =
        read_head(records, at, records->end, records->index, &size, &record->timestamp);
    if (tail == NULL || size > (size_t)(records->end - at)) return -1;
    record->body = tail;
    record->body_size = record->tail_size = size - (size_t)(tail - at);
    record->rest_size = 0;
    record->compressed = 0;
    records->at = at + size;
    return 1;
}

/* Finds the only block of an LZ4 frame. Returns 0 if it is another frame. */
static int find_block(const uint8_t *at, size_t size, const uint8_t **block, size_t *block_size,
                      int *stored) {
    if (size < 15 || little32(at) != LZ4_MAGIC) return 0;
    uint8_t flags = at[4];
    /* version 1, independent blocks, no reserved bit, no dictionary */
    if ((flags & 0xE3) != 0x60 || (at[5] & 0x8F) || at[5] >> 4 < 4) return 0;
    size_t position = flags & 0x08 ? 15 : 7;
    if (size - position < 8) return 0; /* 15 bytes at least, so this is not negative */
    uint32_t length = little32(at + position);
    *stored = (length & LZ4_STORED) != 0;
    length &= ~LZ4_STORED;
    position += 4;
    size_t after = (flags & 0x10 ? 4 : 0) + 4 + (flags & 0x04 ? 4 : 0);
    if (length == 0 || size - position < after || size - position - after != length) return 0;
    *block = at + position;
    *block_size = length;
    return little32(at + position + length + (flags & 0x10 ? 4 : 0)) == 0; /* end mark */
}

/* Reads the extension of a length of 15 or more. Returns the position after it, or NULL. */
static const uint8_t *read_length(const uint8_t *at, const uint8_t *end, size_t *length) {
    if (*length < 15) return at;
    for (uint8_t byte = 255; byte == 255; at++) {
        if (at == end || *length > LZ4_MIN_BLOCK_SIZE) return NULL;
        byte = *at;
        *length += byte;
    }
    return at;
}

/* Walks along a compressed block without decompressing it. The head must be among the first
 * literals, and no match may refer to it: then another head can take its place. */
static int read_block(const Records *records, const uint8_t *block, size_t block_size,
                      Record *record) {
    const uint8_t *at = block, *end = block + block_size;
    size_t made = 0, head = 0, size = 0, last_match = 0;
    while (1) {
        if (at == end) return -1;
        uint8_t token = *at++;
        size_t literals = token >> 4, match = token & 15;
        at = read_length(at, end, &literals);
        if (at == NULL || literals > (size_t)(end - at)) return -1;
        if (!head) {
            const uint8_t *tail =
                read_head(records, at, at + literals, 0, &size, &record->timestamp);
            if (tail == NULL) return -1;
            head = (size_t)(tail - at);
            record->match_bits = token & 15;
            record->body = tail;
            record->body_size = literals - head;
            record->rest = at + literals;
            record->rest_size = (size_t)(end - record->rest);
        }
        at += literals;
        made += literals;
        if (at == end) {
            if (match || (last_match && (literals < LZ4_LAST_LITERALS
                                         || made - last_match < LZ4_LAST_MATCH)))
                return -1;
            break;
        }
        if ((size_t)(end - at) < 2 + 1 + LZ4_LAST_LITERALS) return -1;
        size_t back = (size_t)at[0] | (size_t)at[1] << 8;
        at += 2;
        at = read_length(at, end, &match);
        if (at == NULL || back == 0 || back > made || made - back < head) return -1;
        last_match = made;
        made += match + LZ4_MIN_MATCH;
        if (made > LZ4_MIN_BLOCK_SIZE) return -1;
    }
    record->tail_size = size - head;
    record->compressed = 1;
    return made == size && size + MOST_HEAD <= LZ4_MIN_BLOCK_SIZE ? 1 : -1;
}

static int next_lz4(Records *records, Record *record) {
    const uint8_t *block;
    size_t size, block_size;
    int stored;
    if (!find_block(records->at, (size_t)(records->end - records->at), &block, &block_size, &stored))
        return -1;
    records->at = records->end;
    if (!stored) return read_block(records, block, block_size, record);
    const uint8_t *tail =
        read_head(records, block, block + block_size, 0, &size, &record->timestamp);
    if (tail == NULL || size != block_size || size + MOST_HEAD > LZ4_MIN_BLOCK_SIZE) return -1;
    record->body = tail;
    record->body_size = record->tail_size = size - (size_t)(tail - block);
    record->rest_size = 0;
    record->compressed = 0;
    return 1;
}

int next_record(Records *records, Record *record) {
    const Header *header = records->header;
    if (records->index >= header->count) return records->at == records->end ? 0 : -1;
    int found;
    if ((header->attributes & CODEC_MASK) == NO_CODEC)
        found = next_plain(records, record);
    else if ((header->attributes & CODEC_MASK) == LZ4 && header->count == 1)
        found = next_lz4(records, record);
    else
        found = -1;
    records->index++;
    return found;
}
