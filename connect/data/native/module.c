/* `connect.data._native`: the parts of transformed records that cost most in Python.
 *
 * `connect/data/json_codec.py`, `java_map.py` and `converters/json.py` call it, and work without it,
 * more slowly.
 *
 * `hash_order(entries, capacity)` returns a dict in the order of a `new HashMap<>(capacity)`; None: the
 * order must be found in Python. `read_json(data)` returns the value of a document, or NotImplemented if it is
 * an unusual one. `write_json(value, number_text)` returns a plain value as JSON in bytes, or None if
 * it is not plain; `number_text` writes the doubles that Java and Python write differently. */

#include "functions.h"

static PyMethodDef methods[] = {
    {"hash_order", hash_order, METH_VARARGS, NULL},
    {"read_json", read_json, METH_VARARGS, NULL},
    {"write_json", write_json, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "connect.data._native", NULL, 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    return PyModule_Create(&definition);
}
