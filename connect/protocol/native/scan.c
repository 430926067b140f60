/* Headers of a record set, with runs of small batches as one. */

#include "functions.h"

#include "batch.h"
#include "crc.h"

typedef struct {
    const uint8_t *data;
    size_t size;
    int64_t position;
    int64_t max_size, min_batches, max_records, max_packed, max_dense;
} Request;

typedef struct {
    size_t start, end;
    int64_t batches; /* with records, without markers */
    int64_t records, newest, first_offset, next_offset;
    int32_t leader_epoch;
    int codec; /* -1 until the first batch with records */
} Run;

static PyObject *tuple_of(size_t start, const Header *header) {
    return Py_BuildValue("(nLLiIiiLLiL)", (Py_ssize_t)start, (long long)header->size,
                         (long long)header->base_offset, 2, header->crc, header->attributes,
                         (int)header->last_delta, (long long)header->max_timestamp,
                         (long long)header->producer_id, (int)header->count, 1LL);
}

static PyObject *tuple_of_run(const Run *run) {
    return Py_BuildValue("(nnLiIiLLLLL)", (Py_ssize_t)run->start,
                         (Py_ssize_t)(run->end - run->start), (long long)run->first_offset, 2, 0u,
                         run->codec, (long long)(run->next_offset - run->first_offset - 1),
                         (long long)run->newest, -1LL, (long long)run->records,
                         (long long)run->batches);
}

static int append(PyObject *list, PyObject *item) {
    if (item == NULL) return -1;
    int failed = PyList_Append(list, item);
    Py_DECREF(item);
    return failed;
}

static int crc_is_right(const uint8_t *batch, const Header *header) {
    return crc_of(batch + ATTRIBUTES_AT, (size_t)header->size - ATTRIBUTES_AT) == header->crc;
}

/* Whether the batch can be in a run: a small one whose records can be merged, perhaps after it was
 * decompressed, or a marker. */
static int can_merge(const Request *request, const uint8_t *batch, const Header *header) {
    int attributes = header->attributes;
    if (header->size > request->max_size || header->base_offset < request->position
        || attributes & ~(CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL))
        return 0;
    if (attributes & CONTROL) return crc_is_right(batch, header);
    int codec = attributes & CODEC_MASK;
    int64_t most = codec == NO_CODEC                ? request->max_records
                   : codec == SNAPPY || codec == LZ4 ? request->max_packed
                                                     : request->max_dense;
    if (header->count == 0 || header->count != header->last_delta + 1 || header->count > most
        || !crc_is_right(batch, header))
        return 0;
    if (codec != NO_CODEC) return 1;
    Records records;
    Record record;
    int found;
    open_records(batch, header, &records);
    while ((found = next_record(&records, &record)) == 1) continue;
    return found == 0;
}

/* Appends the run, as one if it has enough batches, else batch by batch. Empties it. */
static int finish(const Request *request, Run *run, PyObject *found) {
    if (run->batches >= request->min_batches) {
        if (append(found, tuple_of_run(run)) < 0) return -1;
    } else {
        Header header;
        for (size_t at = run->start; at < run->end; at += (size_t)header.size) {
            if (read_header(request->data + at, request->size - at, &header) != WHOLE) break;
            if (append(found, tuple_of(at, &header)) < 0) return -1;
        }
    }
    run->start = run->end;
    run->batches = run->records = 0;
    run->codec = -1;
    return 0;
}

static void add(Run *run, size_t at, const Header *header) {
    if (run->start == run->end) {
        run->start = at;
        run->batches = run->records = 0;
        run->newest = -1;
        run->first_offset = header->base_offset;
        run->leader_epoch = header->leader_epoch;
        run->codec = -1;
    }
    run->end = at + (size_t)header->size;
    run->next_offset = header->base_offset + header->last_delta + 1;
    if (header->attributes & CONTROL) return;
    run->codec = header->attributes & CODEC_MASK;
    run->batches++;
    run->records += header->count;
    if (header->max_timestamp > run->newest) run->newest = header->max_timestamp;
}

/* Whether this batch, which can be merged, belongs to the run. */
static int continues(const Run *run, const Header *header) {
    return run->leader_epoch == header->leader_epoch
           && (run->codec < 0 || header->attributes & CONTROL
               || (header->attributes & CODEC_MASK) == run->codec);
}

/* Returns 1 if the record set was read, 0 if it is left to Python, -1 with an exception. */
static int scan_all(const Request *request, PyObject *found) {
    Header header;
    Run run = {0};
    int64_t after = 0;
    size_t at = 0;
    run.codec = -1;
    while (at < request->size) {
        HeaderKind kind = read_header(request->data + at, request->size - at, &header);
        if (kind == ODD) return 0;
        if (kind == CUT_OFF) break;
        if (header.base_offset < after) return 0;
        after = header.base_offset + header.last_delta + 1;
        int mergeable = can_merge(request, request->data + at, &header);
        if (run.start != run.end && !(mergeable && continues(&run, &header))
            && finish(request, &run, found) < 0)
            return -1;
        if (mergeable)
            add(&run, at, &header);
        else if (append(found, tuple_of(at, &header)) < 0)
            return -1;
        at += (size_t)header.size;
    }
    return finish(request, &run, found) < 0 ? -1 : 1;
}

PyObject *scan(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *records;
    Request request;
    long long position, max_size, min_batches, max_records, max_packed, max_dense;
    if (!PyArg_ParseTuple(arguments, "OLLLLLL", &records, &position, &max_size, &min_batches,
                          &max_records, &max_packed, &max_dense))
        return NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(records, &view, PyBUF_SIMPLE) < 0) return NULL;
    request.data = view.buf;
    request.size = (size_t)view.len;
    request.position = position;
    request.max_size = max_size;
    request.min_batches = min_batches;
    request.max_records = max_records;
    request.max_packed = max_packed;
    request.max_dense = max_dense;
    PyObject *found = PyList_New(0);
    int result = found == NULL ? -1 : scan_all(&request, found);
    PyBuffer_Release(&view);
    if (result == 1) return found;
    Py_XDECREF(found);
    if (result < 0) return NULL;
    return Py_NewRef(Py_None);
}
