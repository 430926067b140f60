/* Merges the records of a run of small batches into few large ones. */

#include "functions.h"

#include <string.h>

#include "batch.h"
#include "crc.h"

#define LZ4_FRAME_SIZE 11 /* frame header and end mark */
#define LZ4_STORED 0x80000000u

/* Version 01, independent blocks of up to 64 KiB, no checksums; and the header's own checksum. */
static const uint8_t LZ4_FRAME[7] = {0x04, 0x22, 0x4D, 0x18, 0x60, 0x40, 0x82};

/* The batch being made. */
typedef struct {
    PyObject *made; /* list of finished batches */
    int64_t max_bytes, max_records;
    int lz4;
    PyObject *data; /* bytearray, or NULL before the first record */
    size_t room, used;
    int64_t plain; /* bytes of its records before compression */
    int64_t count, base, newest;
    PyObject *runs;
    int64_t run_start, run_count;
} Output;

static void put32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static void put64(uint8_t *at, uint64_t value) {
    put32(at, (uint32_t)(value >> 32));
    put32(at + 4, (uint32_t)value);
}

static void put_little32(uint8_t *at, uint32_t value) {
    for (int n = 0; n < 4; n++) at[n] = (uint8_t)(value >> 8 * n);
}

static uint8_t *bytes_of(const Output *output) {
    return (uint8_t *)PyByteArray_AsString(output->data);
}

static int end_run(Output *output) {
    if (!output->run_count) return 0;
    PyObject *run = Py_BuildValue("(LL)", (long long)output->run_start, (long long)output->run_count);
    if (run == NULL) return -1;
    int failed = PyList_Append(output->runs, run);
    Py_DECREF(run);
    output->run_count = 0;
    return failed;
}

/* Completes the batch: frame, header, CRC. */
static int end_batch(Output *output) {
    if (output->data == NULL) return 0;
    int64_t last = output->run_start + output->run_count - 1;
    if (end_run(output) < 0) return -1;
    uint8_t *data = bytes_of(output);
    if (output->lz4) {
        put_little32(data + output->used, 0);
        output->used += 4;
    }
    memset(data, 0, HEADER_SIZE);
    put32(data + 8, (uint32_t)(output->used - LOG_OVERHEAD));
    put32(data + 12, 0xFFFFFFFFu); /* no leader epoch */
    data[16] = 2;
    data[22] = output->lz4 ? LZ4 : NO_CODEC;
    put32(data + 23, (uint32_t)(output->count - 1));
    put64(data + 27, (uint64_t)output->base);
    put64(data + 35, (uint64_t)output->newest);
    memset(data + PRODUCER_AT, 0xFF, SEQUENCE_END - PRODUCER_AT); /* no producer */
    put32(data + SEQUENCE_END, (uint32_t)output->count);
    put32(data + 17, crc_of(data + ATTRIBUTES_AT, output->used - ATTRIBUTES_AT));
    if (PyByteArray_Resize(output->data, (Py_ssize_t)output->used) < 0) return -1;
    PyObject *made = Py_BuildValue("(OLOLL)", output->data, (long long)output->count, output->runs,
                                   (long long)output->newest, (long long)last);
    Py_CLEAR(output->data);
    Py_CLEAR(output->runs);
    if (made == NULL) return -1;
    int failed = PyList_Append(output->made, made);
    Py_DECREF(made);
    return failed;
}

static int begin_batch(Output *output, int64_t timestamp, size_t room) {
    output->runs = PyList_New(0);
    output->data = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)room);
    if (output->data == NULL || output->runs == NULL) return -1;
    output->room = room;
    output->used = HEADER_SIZE;
    output->plain = 0;
    output->count = output->run_count = 0;
    output->base = output->newest = timestamp;
    if (output->lz4) {
        memcpy(bytes_of(output) + HEADER_SIZE, LZ4_FRAME, sizeof LZ4_FRAME);
        output->used += sizeof LZ4_FRAME;
    }
    return 0;
}

/* Writes length, attributes and deltas of a record. Returns its size with the tail. */
static size_t write_head(const Output *output, const Record *record, uint8_t *to, size_t *head_size) {
    int64_t delta = (int64_t)((uint64_t)record->timestamp - (uint64_t)output->base);
    size_t inner = 1 + varint_size(delta) + varint_size(output->count) + record->tail_size;
    uint8_t *at = write_varint(to, (int64_t)inner);
    size_t size = (size_t)(at - to) + inner;
    *at++ = 0;
    at = write_varint(at, delta);
    at = write_varint(at, output->count);
    *head_size = (size_t)(at - to);
    return size;
}

static uint8_t *write_block(uint8_t *at, const Record *record, const uint8_t *head, size_t head_size) {
    uint8_t *block = at + 4;
    uint32_t stored = 0;
    at = block;
    if (record->compressed) {
        size_t literals = head_size + record->body_size;
        *at++ = (uint8_t)((literals < 15 ? literals : 15) << 4 | record->match_bits);
        if (literals >= 15) {
            for (literals -= 15; literals >= 255; literals -= 255) *at++ = 255;
            *at++ = (uint8_t)literals;
        }
    } else {
        stored = LZ4_STORED;
    }
    memcpy(at, head, head_size);
    memcpy(at + head_size, record->body, record->body_size);
    at += head_size + record->body_size;
    if (record->rest_size) memcpy(at, record->rest, record->rest_size);
    at += record->rest_size;
    put_little32(block - 4, (uint32_t)(at - block) | stored);
    return at;
}

/* Adds a record. `left`: bytes of input from it on. */
static int add_record(Output *output, int64_t offset, const Record *record, size_t left) {
    uint8_t head[MOST_HEAD];
    size_t head_size = 0, size = 0, most = 0;
    for (int fresh = 0;; fresh = 1) {
        if (output->data != NULL) {
            size = write_head(output, record, head, &head_size);
            most = head_size + record->body_size + record->rest_size;
            /* A block's length, its token and the token's extension; the end mark. */
            if (output->lz4) most += 4 + 1 + record->body_size / 255 + 2 + 4;
            int fits = output->count < output->max_records
                       && (int64_t)(output->used + most) <= output->max_bytes
                       && output->plain + (int64_t)size + HEADER_SIZE <= output->max_bytes;
            if (fresh || fits) break;
        }
        if (end_batch(output) < 0) return -1;
        size_t room = HEADER_SIZE + LZ4_FRAME_SIZE + left;
        if ((int64_t)room > output->max_bytes) room = (size_t)output->max_bytes;
        if (begin_batch(output, record->timestamp, room) < 0) return -1;
    }
    if (output->used + most > output->room) {
        output->room = output->used + most + (most > left ? most : left);
        if (PyByteArray_Resize(output->data, (Py_ssize_t)output->room) < 0) return -1;
    }
    uint8_t *at = bytes_of(output) + output->used;
    if (output->lz4) {
        at = write_block(at, record, head, head_size);
    } else {
        memcpy(at, head, head_size);
        memcpy(at + head_size, record->body, record->body_size);
        at += head_size + record->body_size;
    }
    output->used = (size_t)(at - bytes_of(output));
    output->plain += (int64_t)size;
    if (!output->run_count || offset != output->run_start + output->run_count) {
        if (end_run(output) < 0) return -1;
        output->run_start = offset;
    }
    output->run_count++;
    output->count++;
    if (record->timestamp > output->newest) output->newest = record->timestamp;
    return 0;
}

static int merge_all(Output *output, const uint8_t *data, size_t size) {
    Header header;
    Records records;
    Record record;
    for (size_t at = 0; at < size; at += (size_t)header.size) {
        int found = -1;
        if (read_header(data + at, size - at, &header) == WHOLE) {
            if (header.attributes & CONTROL) continue;
            int lz4 = (header.attributes & CODEC_MASK) == LZ4;
            if (output->data == NULL) output->lz4 = lz4;
            open_records(data + at, &header, &records);
            for (int64_t offset = header.base_offset;
                 lz4 == output->lz4 && (found = next_record(&records, &record)) == 1; offset++)
                if (add_record(output, offset, &record, size - at) < 0) return -1;
        }
        if (found < 0) {
            PyErr_SetString(PyExc_ValueError, "these batches cannot be merged");
            return -1;
        }
    }
    return end_batch(output);
}

PyObject *merge(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *batches;
    long long max_bytes, max_records;
    if (!PyArg_ParseTuple(arguments, "OLL", &batches, &max_bytes, &max_records)) return NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(batches, &view, PyBUF_SIMPLE) < 0) return NULL;
    Output output = {0};
    output.max_bytes = max_bytes > HEADER_SIZE + LZ4_FRAME_SIZE ? max_bytes
                                                                : HEADER_SIZE + LZ4_FRAME_SIZE;
    output.max_records = max_records;
    output.made = PyList_New(0);
    int failed = output.made == NULL || merge_all(&output, view.buf, (size_t)view.len) < 0;
    PyBuffer_Release(&view);
    Py_CLEAR(output.data);
    Py_CLEAR(output.runs);
    if (failed) Py_CLEAR(output.made);
    return output.made;
}
