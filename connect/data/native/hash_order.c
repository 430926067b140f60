/* The order of Java's HashMap for the names of a record. */

#include "functions.h"

#include <stdint.h>

/* Larger maps are ordered in Python: here the time grows with the square of the names. */
#define MOST_NAMES 64
#define MOST_CAPACITY (1u << 20)

/* A HashMap has twice the buckets when more than three quarters of them would have an entry. */
static uint32_t buckets_of(Py_ssize_t entries, uint32_t capacity) {
    uint32_t buckets = 1;
    while (buckets < capacity || (uint64_t)entries * 4 > (uint64_t)buckets * 3) buckets *= 2;
    return buckets;
}

/* Java's hash code of a text, from its UTF-8: of its UTF-16 units. */
static uint32_t text_hash(const uint8_t *data, Py_ssize_t size) {
    uint32_t hash = 0;
    const uint8_t *end = data + size;
    while (data < end) {
        uint32_t code = *data++;
        if (code >= 0xF0) {
            code = (code & 7u) << 18 | (data[0] & 63u) << 12 | (data[1] & 63u) << 6 | (data[2] & 63u);
            data += 3;
            hash = 31 * hash + 0xD800 + ((code - 0x10000) >> 10);
            code = 0xDC00 + ((code - 0x10000) & 0x3FF);
        } else if (code >= 0xE0) {
            code = (code & 15u) << 12 | (data[0] & 63u) << 6 | (data[1] & 63u);
            data += 2;
        } else if (code >= 0xC0) {
            code = (code & 31u) << 6 | (data[0] & 63u);
            data += 1;
        }
        hash = 31 * hash + code;
    }
    return hash;
}

typedef struct {
    uint32_t bucket;
    PyObject *name, *value; /* borrowed from the entries */
} Entry;

/* Put the entries at their places in the order of their buckets. Returns how many there are; 0 for
 * an order that must be found in Python. */
static Py_ssize_t order(PyObject *entries, uint32_t buckets, Entry *ordered) {
    PyObject *name, *value;
    Py_ssize_t place = 0, count = 0;
    while (PyDict_Next(entries, &place, &name, &value)) {
        Py_ssize_t size;
        if (count == MOST_NAMES || !PyUnicode_CheckExact(name)) return 0;
        const char *data = PyUnicode_AsUTF8AndSize(name, &size);
        if (data == NULL) { /* half of a surrogate pair */
            PyErr_Clear();
            return 0;
        }
        uint32_t hash = text_hash((const uint8_t *)data, size);
        uint32_t bucket = (hash ^ hash >> 16) & (buckets - 1);
        Py_ssize_t n = count++;
        for (; n > 0 && ordered[n - 1].bucket > bucket; n--) ordered[n] = ordered[n - 1];
        ordered[n] = (Entry){bucket, name, value};
    }
    return count;
}

PyObject *hash_order(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *entries;
    unsigned int capacity;
    Entry ordered[MOST_NAMES];
    if (!PyArg_ParseTuple(arguments, "OI", &entries, &capacity)) return NULL;
    if (!PyDict_CheckExact(entries) || capacity > MOST_CAPACITY) return Py_NewRef(Py_None);
    Py_ssize_t size = PyDict_Size(entries);
    if (size > MOST_NAMES) return Py_NewRef(Py_None);
    Py_ssize_t count = order(entries, buckets_of(size, capacity), ordered);
    if (count == 0) return Py_NewRef(Py_None);
    PyObject *made = PyDict_New();
    for (Py_ssize_t n = 0; made != NULL && n < count; n++)
        if (PyDict_SetItem(made, ordered[n].name, ordered[n].value) < 0) Py_CLEAR(made);
    return made;
}
