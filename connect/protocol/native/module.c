/* `connect.protocol._native`: the parts of the batch path that cost most in Python.
 *
 * `connect/protocol/small_batches.py` and `batches.py` call it, and say what its functions do. They
 * work without it, more slowly. */

#include "functions.h"

#include <string.h>

#include "batch.h"
#include "crc.h"

static void put(uint8_t *at, uint64_t value, int size) {
    for (int n = 0; n < size; n++) at[n] = (uint8_t)(value >> 8 * (size - 1 - n));
}

PyObject *stamp(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *batch;
    long long producer, epoch, sequence;
    int transactional;
    if (!PyArg_ParseTuple(arguments, "OLLLp", &batch, &producer, &epoch, &sequence, &transactional))
        return NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE) < 0) return NULL;
    if (view.len < HEADER_SIZE) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "too short for a record batch");
        return NULL;
    }
    uint8_t *data = view.buf, before[SEQUENCE_END - ATTRIBUTES_AT];
    memcpy(before, data + ATTRIBUTES_AT, sizeof before);
    data[ATTRIBUTES_AT + 1] =
        (uint8_t)((data[ATTRIBUTES_AT + 1] & ~TRANSACTIONAL) | (transactional ? TRANSACTIONAL : 0));
    put(data + PRODUCER_AT, (uint64_t)producer, 8);
    put(data + PRODUCER_AT + 8, (uint64_t)epoch, 2);
    put(data + PRODUCER_AT + 10, (uint64_t)sequence & 0x7FFFFFFF, 4);
    uint32_t crc = 0;
    for (int n = 17; n < ATTRIBUTES_AT; n++) crc = crc << 8 | data[n];
    crc ^= crc_change(before, data + ATTRIBUTES_AT, sizeof before, (size_t)view.len - SEQUENCE_END);
    put(data, 0, 8);
    put(data + 8, (uint64_t)(view.len - LOG_OVERHEAD), 4);
    put(data + 12, UINT64_MAX, 4);
    data[16] = 2;
    put(data + 17, crc, 4);
    PyBuffer_Release(&view);
    return Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_VARARGS, NULL},
    {"merge", merge, METH_VARARGS, NULL},
    {"stamp", stamp, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "connect.protocol._native", NULL, 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    crc_prepare();
    return PyModule_Create(&definition);
}
