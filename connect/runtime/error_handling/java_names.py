"""Errors as Kafka Connect's Java would name and print them, for those who read them by program."""

from __future__ import annotations

import traceback

from connect.errors import ConfigError, ConnectError, CorruptData, DataError, RetriableError

__all__ = ["java_message", "java_name", "java_trace"]

_CONNECT = "org.apache.kafka.connect.errors."
# The first class that fits. Bytes that do not parse are DataExceptions in Java as well.
_NAMES: tuple[tuple[type[Exception], str], ...] = (
    (DataError, f"{_CONNECT}DataException"),
    (CorruptData, f"{_CONNECT}DataException"),
    (ConfigError, "org.apache.kafka.common.config.ConfigException"),
    (RetriableError, f"{_CONNECT}RetriableException"),
    (ConnectError, f"{_CONNECT}ConnectException"),
)


def java_name(error: BaseException) -> str:
    """The equivalent Java exception class; the Python class for exceptions from outside the
    framework."""
    kind = type(error)
    for ours, java in _NAMES:
        if isinstance(error, ours):
            return java if kind.__module__ == ours.__module__ else _python_name(kind)
    return _python_name(kind)


def java_message(error: BaseException) -> str | None:
    """Its text; None where it has none."""
    return str(error) if error.args else None


def java_trace(error: BaseException) -> str:
    """The stack in Java's layout: innermost call first, then what caused it."""
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
