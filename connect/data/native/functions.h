/* The functions of the module, for Python. Each holds the GIL: a record takes about a microsecond. */

#ifndef CONNECT_DATA_FUNCTIONS_H
#define CONNECT_DATA_FUNCTIONS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *hash_order(PyObject *module, PyObject *arguments);
PyObject *read_json(PyObject *module, PyObject *arguments);
PyObject *write_json(PyObject *module, PyObject *arguments);

#endif
