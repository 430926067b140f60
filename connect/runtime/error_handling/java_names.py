"""Java names and texts of errors, as programs that use Kafka Connect expect them."""

from __future__ import annotations

import traceback

from connect.errors import ConfigError, ConnectError, CorruptData, DataError, RetriableError

__all__ = ["java_message", "java_name", "java_trace"]

_CONNECT = "org.apache.kafka.connect.errors."
# The first matching class counts. Bytes that cannot be parsed are DataExceptions in Java as well.
_NAMES: tuple[tuple[type[Exception], str], ...] = (
    (DataError, f"{_CONNECT}DataException"),
    (CorruptData, f"{_CONNECT}DataException"),
    (ConfigError, "org.apache.kafka.common.config.ConfigException"),
    (RetriableError, f"{_CONNECT}RetriableException"),
    (ConnectError, f"{_CONNECT}ConnectException"),
)


def java_name(error: BaseException) -> str:
    """Return the equivalent Java exception class, or the Python class of a foreign exception."""
    kind = type(error)
    for ours, java in _NAMES:
        if isinstance(error, ours):
            return java if kind.__module__ == ours.__module__ else _python_name(kind)
    return _python_name(kind)


def java_message(error: BaseException) -> str | None:
    """Return the text of an error, or None if it has none."""
    return str(error) if error.args else None


def java_trace(error: BaseException) -> str:
    """Return the stack trace in Java's layout: innermost call first, then the causes."""
    lines = []
    prefix = ""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        message = java_message(current)
        lines.append(prefix + java_name(current) + ("" if message is None else f": {message}"))
        for frame in reversed(traceback.extract_tb(current.__traceback__)):
            file = frame.filename.replace("\\", "/").rpartition("/")[2]
            lines.append(f"\tat {frame.name}({file}:{frame.lineno})")
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
        prefix = "Caused by: "
    return "".join(f"{line}\n" for line in lines)


def _python_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
