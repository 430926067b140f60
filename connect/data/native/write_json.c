/* Plain values as JSON. Half of a surrogate pair is left to Python, too. */

#include "functions.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Java writes doubles between these without an exponent, as Python does. */
#define PLAIN_FROM 1e-3
#define PLAIN_BELOW 1e7

#define FIRST_ROOM 1024

typedef enum { WRITTEN, NOT_PLAIN, FAILED } Outcome;

typedef struct {
    char *data;
    size_t size, room;
    PyObject *number_text; /* writes the other doubles; borrowed */
} Text;

static Outcome write_value(Text *text, PyObject *value);
static Outcome write_held(Text *text, PyObject *value);

/* Return where `size` more bytes go, or NULL with an exception. */
static char *more(Text *text, size_t size) {
    if (size > text->room - text->size) {
        size_t room = text->room * 2;
        while (size > room - text->size) room *= 2;
        char *data = PyMem_Realloc(text->data, room);
        if (data == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        text->data = data;
        text->room = room;
    }
    char *at = text->data + text->size;
    text->size += size;
    return at;
}

static Outcome append(Text *text, const char *data, size_t size) {
    char *at = more(text, size);
    if (at == NULL) return FAILED;
    memcpy(at, data, size);
    return WRITTEN;
}

/* Append one UTF-16 unit as backslash, u and four capital digits. */
static char *escape_unit(char *at, unsigned unit) {
    static const char digits[] = "0123456789ABCDEF";
    *at++ = '\\';
    *at++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4) *at++ = digits[unit >> shift & 15];
    return at;
}

/* The letter after a backslash, or 0 if the character has no short escape. */
static char short_escape(uint8_t character) {
    switch (character) {
        case '"': return '"';
        case '\\': return '\\';
        case '\b': return 'b';
        case '\t': return 't';
        case '\n': return 'n';
        case '\f': return 'f';
        case '\r': return 'r';
        default: return 0;
    }
}

/* Whether a byte of UTF-8 begins a character that is escaped; one of four bytes is. */
static int begins_escape(uint8_t byte) {
    return (byte < 0x20) | (byte == '"') | (byte == '\\') | (byte >= 0xF0);
}

/* An escape is at most so much longer than its character: twelve bytes for four. */
#define LONGEST_ESCAPE 8

static Outcome write_utf8(Text *text, const uint8_t *data, size_t size) {
    size_t escapes = 0;
    for (size_t n = 0; n < size; n++) escapes += (size_t)begins_escape(data[n]);
    size_t room = size + escapes * LONGEST_ESCAPE + 2;
    char *start = more(text, room), *at = start;
    if (start == NULL) return FAILED;
    *at++ = '"';
    const uint8_t *end = data + size;
    while (data < end) {
        const uint8_t *plain = data;
        if (escapes == 0) data = end;
        while (data < end && !begins_escape(*data)) data++;
        memcpy(at, plain, (size_t)(data - plain));
        at += data - plain;
        if (data == end) break;
        if (*data >= 0xF0) {
            unsigned code = ((*data & 7u) << 18 | (data[1] & 63u) << 12 | (data[2] & 63u) << 6
                             | (data[3] & 63u)) - 0x10000;
            at = escape_unit(escape_unit(at, 0xD800 + (code >> 10)), 0xDC00 + (code & 0x3FF));
            data += 4;
            continue;
        }
        char letter = short_escape(*data);
        if (letter) {
            *at++ = '\\';
            *at++ = letter;
        } else {
            at = escape_unit(at, *data);
        }
        data++;
    }
    *at++ = '"';
    text->size -= room - (size_t)(at - start);
    return WRITTEN;
}

static Outcome write_string(Text *text, PyObject *value) {
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(value, &size);
    if (data == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return FAILED;
        PyErr_Clear(); /* half of a surrogate pair */
        return NOT_PLAIN;
    }
    return write_utf8(text, (const uint8_t *)data, (size_t)size);
}

/* Append the text of an object, and release it. NULL: an exception was raised. */
static Outcome append_text(Text *text, PyObject *written) {
    if (written == NULL) return FAILED;
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(written, &size);
    Outcome outcome = data == NULL ? FAILED : append(text, data, (size_t)size);
    Py_DECREF(written);
    return outcome;
}

static Outcome write_integer(Text *text, PyObject *value) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) return append_text(text, PyObject_Repr(value));
    if (number == -1 && PyErr_Occurred()) return FAILED;
    char digits[24], *at = digits + sizeof digits;
    unsigned long long rest = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) *--at = '-';
    return append(text, at, (size_t)(digits + sizeof digits - at));
}

static Outcome write_double(Text *text, PyObject *value) {
    double number = PyFloat_AsDouble(value), magnitude = fabs(number);
    if (!(magnitude >= PLAIN_FROM && magnitude < PLAIN_BELOW))
        return append_text(text, PyObject_CallFunctionObjArgs(text->number_text, value, NULL));
    char *written = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (written == NULL) return FAILED;
    Outcome outcome = append(text, written, strlen(written));
    PyMem_Free(written);
    return outcome;
}

static Outcome write_base64(Text *text, PyObject *value) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(value, &bytes, &length) < 0) return FAILED;
    const uint8_t *data = (const uint8_t *)bytes;
    size_t size = (size_t)length, whole = size / 3 * 3;
    char *at = more(text, (size + 2) / 3 * 4 + 2);
    if (at == NULL) return FAILED;
    *at++ = '"';
    for (size_t n = 0; n < whole; n += 3) {
        uint32_t bits = (uint32_t)data[n] << 16 | (uint32_t)data[n + 1] << 8 | data[n + 2];
        for (int shift = 18; shift >= 0; shift -= 6) *at++ = letters[bits >> shift & 63];
    }
    if (size > whole) {
        uint32_t bits = (uint32_t)data[whole] << 16;
        if (size > whole + 1) bits |= (uint32_t)data[whole + 1] << 8;
        *at++ = letters[bits >> 18];
        *at++ = letters[bits >> 12 & 63];
        *at++ = size > whole + 1 ? letters[bits >> 6 & 63] : '=';
        *at++ = '=';
    }
    *at = '"';
    return WRITTEN;
}

static Outcome write_object(Text *text, PyObject *value) {
    PyObject *name, *member;
    Py_ssize_t place = 0;
    char before = '{';
    while (PyDict_Next(value, &place, &name, &member)) {
        if (!PyUnicode_CheckExact(name)) return NOT_PLAIN;
        Outcome outcome = append(text, &before, 1);
        if (outcome == WRITTEN) outcome = write_string(text, name);
        if (outcome == WRITTEN) outcome = append(text, ":", 1);
        if (outcome == WRITTEN) outcome = write_held(text, member);
        if (outcome != WRITTEN) return outcome;
        before = ',';
    }
    return before == '{' ? append(text, "{}", 2) : append(text, "}", 1);
}

static Outcome write_array(Text *text, PyObject *value) {
    char before = '[';
    for (Py_ssize_t n = 0; n < PyList_Size(value); n++) {
        Outcome outcome = append(text, &before, 1);
        if (outcome == WRITTEN) outcome = write_held(text, PyList_GetItem(value, n));
        if (outcome != WRITTEN) return outcome;
        before = ',';
    }
    return before == '[' ? append(text, "[]", 2) : append(text, "]", 1);
}

static Outcome write_container(Text *text, PyObject *value) {
    if (Py_EnterRecursiveCall(" while writing JSON")) return FAILED;
    Outcome outcome = PyDict_CheckExact(value) ? write_object(text, value) : write_array(text, value);
    Py_LeaveRecursiveCall();
    return outcome;
}

/* Writing a double may run Python code, so the value is held. */
static Outcome write_held(Text *text, PyObject *value) {
    Py_INCREF(value);
    Outcome outcome = write_value(text, value);
    Py_DECREF(value);
    return outcome;
}

static Outcome write_value(Text *text, PyObject *value) {
    if (PyUnicode_CheckExact(value)) return write_string(text, value);
    if (PyLong_CheckExact(value)) return write_integer(text, value);
    if (value == Py_None) return append(text, "null", 4);
    if (value == Py_True) return append(text, "true", 4);
    if (value == Py_False) return append(text, "false", 5);
    if (PyDict_CheckExact(value) || PyList_CheckExact(value)) return write_container(text, value);
    if (PyFloat_CheckExact(value)) return write_double(text, value);
    if (PyBytes_CheckExact(value)) return write_base64(text, value);
    return NOT_PLAIN;
}

PyObject *write_json(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *value, *result = NULL;
    Text text = {NULL, 0, FIRST_ROOM, NULL};
    if (!PyArg_ParseTuple(arguments, "OO", &value, &text.number_text)) return NULL;
    text.data = PyMem_Malloc(text.room);
    if (text.data == NULL) return PyErr_NoMemory();
    Outcome outcome = write_value(&text, value);
    if (outcome == WRITTEN) result = PyBytes_FromStringAndSize(text.data, (Py_ssize_t)text.size);
    if (outcome == NOT_PLAIN) result = Py_NewRef(Py_None);
    PyMem_Free(text.data);
    return result;
}
