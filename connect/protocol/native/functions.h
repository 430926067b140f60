/* The functions of the module, for Python. Each holds the GIL: a response takes a millisecond, less
 * than it can take to get the GIL back from another thread. */

#ifndef CONNECT_PROTOCOL_FUNCTIONS_H
#define CONNECT_PROTOCOL_FUNCTIONS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *scan(PyObject *module, PyObject *arguments);
PyObject *merge(PyObject *module, PyObject *arguments);
PyObject *stamp(PyObject *module, PyObject *arguments);

#endif
