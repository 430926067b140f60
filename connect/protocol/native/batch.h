/* Headers of magic 2 batches, and the records of those small ones that can be merged.
 *
 * Everything is read from bytes that others sent: no function reads outside of what it is given. */

#ifndef CONNECT_PROTOCOL_BATCH_H
#define CONNECT_PROTOCOL_BATCH_H

#include <stddef.h>
#include <stdint.h>

#define HEADER_SIZE 61
#define LOG_OVERHEAD 12
#define ATTRIBUTES_AT 21
#define PRODUCER_AT 43
#define SEQUENCE_END 57

#define CODEC_MASK 0x07
#define LOG_APPEND_TIME 0x08
#define TRANSACTIONAL 0x10
#define CONTROL 0x20

#define NO_CODEC 0
#define SNAPPY 2
#define LZ4 3

#define MOST_HEAD 26 /* bytes of length, attributes and both deltas at most, and one to spare */

typedef struct {
    int64_t base_offset, size;
    int32_t leader_epoch, last_delta, count;
    uint32_t crc;
    int attributes; /* both bytes, as a signed number */
    int64_t base_timestamp, max_timestamp, producer_id;
} Header;

typedef enum { WHOLE, CUT_OFF, ODD } HeaderKind;

/* Reads the header at `data`. CUT_OFF: fewer than all bytes of the batch are there. ODD: another
 * magic, or a field with an invalid value. */
HeaderKind read_header(const uint8_t *data, size_t room, Header *header);

/* One record: what follows its head (length, attributes, deltas). The body is the tail itself, or in
 * an LZ4 block the literals behind the head; then `rest` follows, which begins with a match. */
typedef struct {
    int64_t timestamp;
    size_t tail_size; /* decompressed */
    const uint8_t *body, *rest;
    size_t body_size, rest_size;
    uint8_t match_bits; /* the low half of the block's first token */
    int compressed;     /* 0: the body is the whole tail */
} Record;

typedef struct {
    const Header *header;
    const uint8_t *at, *end;
    int32_t index;
} Records;

/* Begins with the records of a whole data batch at `data`. */
void open_records(const uint8_t *data, const Header *header, Records *records);

/* Returns 1 and the next record, 0 after the last, -1 if the batch cannot be merged like this. */
int next_record(Records *records, Record *record);

/* Write a varint; return the position after it. */
uint8_t *write_varint(uint8_t *to, int64_t value);
size_t varint_size(int64_t value);

#endif
