/* JSON as most records have it. Whatever is unusual (a backslash and a u, more digits than a long
 * surely has, half a document, deep nesting) is left to Python, which also says what is wrong. */

#include "functions.h"

#include <stdint.h>
#include <string.h>

#define DEEPEST 64
/* So many digits fit into 64 bits. */
#define MOST_DIGITS 18
#define LONGEST_NUMBER 40

#define LONGEST_NAME 64
#define KNOWN_NAMES 512

/* At a NULL without an exception, the document is left to Python. */
typedef struct {
    const char *at, *end;
    int depth;
} Document;

/* The names of one record come again in the next one. */
static PyObject *known_names[KNOWN_NAMES];

static PyObject *read_value(Document *document);

static void skip_blank(Document *document) {
    while (document->at < document->end
           && (*document->at == ' ' || *document->at == '\n' || *document->at == '\r'
               || *document->at == '\t'))
        document->at++;
}

/* Whether the next character that is not blank is this one, which is then passed. */
static int next_is(Document *document, char wanted) {
    skip_blank(document);
    if (document->at == document->end || *document->at != wanted) return 0;
    document->at++;
    return 1;
}

/* A text of valid UTF-8, or NULL. */
static PyObject *decoded(const char *data, size_t size) {
    PyObject *text = PyUnicode_DecodeUTF8(data, (Py_ssize_t)size, NULL);
    if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) PyErr_Clear();
    return text;
}

/* The same for a name, which is remembered. */
static PyObject *known_name(const char *data, size_t size) {
    if (size > LONGEST_NAME) return decoded(data, size);
    uint32_t hash = (uint32_t)size;
    for (size_t n = 0; n < size; n++) hash = 31 * hash + (uint8_t)data[n];
    PyObject **known = &known_names[hash % KNOWN_NAMES];
    if (*known != NULL) {
        Py_ssize_t known_size;
        const char *known_data = PyUnicode_AsUTF8AndSize(*known, &known_size);
        if (known_data == NULL) return NULL;
        if ((size_t)known_size == size && memcmp(known_data, data, size) == 0)
            return Py_NewRef(*known);
    }
    PyObject *name = decoded(data, size);
    if (name != NULL) {
        PyObject *forgotten = *known;
        *known = Py_NewRef(name);
        Py_XDECREF(forgotten);
    }
    return name;
}

static char unescaped(char letter) {
    switch (letter) {
        case '"':
        case '\\':
        case '/': return letter;
        case 'b': return '\b';
        case 'f': return '\f';
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        default: return 0;
    }
}

/* The end of a text whose first quote was passed: its second quote, or NULL. */
static const char *end_of_text(const Document *document, int *escapes) {
    const char *at = document->at;
    for (; at < document->end && *at != '"'; at++) {
        if ((uint8_t)*at < 0x20) return NULL;
        if (*at != '\\') continue;
        *escapes += 1;
        if (++at == document->end || !unescaped(*at)) return NULL;
    }
    return at == document->end ? NULL : at;
}

static PyObject *read_escaped(const char *from, const char *end) {
    char *text = PyMem_Malloc((size_t)(end - from)), *to = text;
    if (text == NULL) return PyErr_NoMemory();
    for (; from < end; from++) *to++ = *from == '\\' ? unescaped(*++from) : *from;
    PyObject *made = decoded(text, (size_t)(to - text));
    PyMem_Free(text);
    return made;
}

static PyObject *read_text(Document *document, PyObject *(*make)(const char *, size_t)) {
    int escapes = 0;
    const char *from = document->at, *end = end_of_text(document, &escapes);
    if (end == NULL) return NULL;
    document->at = end + 1;
    return escapes ? read_escaped(from, end) : make(from, (size_t)(end - from));
}

static size_t pass_digits(Document *document) {
    const char *from = document->at;
    while (document->at < document->end && *document->at >= '0' && *document->at <= '9')
        document->at++;
    return (size_t)(document->at - from);
}

static int pass_any(Document *document, char one, char other) {
    if (document->at == document->end || (*document->at != one && *document->at != other)) return 0;
    document->at++;
    return 1;
}

static PyObject *read_number(Document *document) {
    const char *from = document->at;
    int negative = pass_any(document, '-', '-');
    const char *first = document->at;
    size_t digits = pass_digits(document);
    if (digits == 0 || digits > MOST_DIGITS || (digits > 1 && *first == '0')) return NULL;
    int whole = 1;
    if (pass_any(document, '.', '.')) {
        whole = 0;
        if (pass_digits(document) == 0) return NULL;
    }
    if (pass_any(document, 'e', 'E')) {
        whole = 0;
        pass_any(document, '+', '-');
        if (pass_digits(document) == 0) return NULL;
    }
    if (whole) {
        long long number = 0;
        for (; first < document->at; first++) number = number * 10 + (*first - '0');
        return PyLong_FromLongLong(negative ? -number : number);
    }
    char written[LONGEST_NUMBER + 1];
    size_t size = (size_t)(document->at - from);
    if (size > LONGEST_NUMBER) return NULL;
    memcpy(written, from, size);
    written[size] = 0;
    double number = PyOS_string_to_double(written, NULL, NULL);
    return number == -1.0 && PyErr_Occurred() ? NULL : PyFloat_FromDouble(number);
}

static PyObject *read_word(Document *document, const char *word, PyObject *value) {
    size_t size = strlen(word);
    if ((size_t)(document->end - document->at) < size || memcmp(document->at, word, size) != 0)
        return NULL;
    document->at += size;
    return Py_NewRef(value);
}

static int read_member(Document *document, PyObject *object) {
    if (!next_is(document, '"')) return 0;
    PyObject *name = read_text(document, known_name), *value = NULL;
    if (name != NULL && next_is(document, ':')) value = read_value(document);
    int added = value != NULL && PyDict_SetItem(object, name, value) == 0;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return added;
}

static int read_element(Document *document, PyObject *array) {
    PyObject *value = read_value(document);
    int added = value != NULL && PyList_Append(array, value) == 0;
    Py_XDECREF(value);
    return added;
}

/* An object or array whose first character was passed. */
static PyObject *read_container(Document *document, PyObject *made, char end,
                                int (*read_part)(Document *, PyObject *)) {
    if (made == NULL || next_is(document, end)) return made;
    if (++document->depth > DEEPEST) {
        Py_DECREF(made);
        return NULL;
    }
    do
        if (!read_part(document, made)) {
            Py_DECREF(made);
            return NULL;
        }
    while (next_is(document, ','));
    document->depth--;
    if (!next_is(document, end)) Py_CLEAR(made);
    return made;
}

static PyObject *read_value(Document *document) {
    skip_blank(document);
    if (document->at == document->end) return NULL;
    switch (*document->at) {
        case '"': document->at++; return read_text(document, decoded);
        case '{': document->at++; return read_container(document, PyDict_New(), '}', read_member);
        case '[': document->at++; return read_container(document, PyList_New(0), ']', read_element);
        case 't': return read_word(document, "true", Py_True);
        case 'f': return read_word(document, "false", Py_False);
        case 'n': return read_word(document, "null", Py_None);
        default: return read_number(document);
    }
}

PyObject *read_json(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "y#", &data, &size)) return NULL;
    Document document = {data, data + size, 0};
    PyObject *value = read_value(&document);
    skip_blank(&document);
    if (value != NULL && document.at == document.end) return value;
    if (PyErr_Occurred()) return NULL;
    Py_XDECREF(value);
    return Py_NewRef(Py_NotImplemented);
}
