"""Log levels for REST: Python's loggers with Java's level names.

A logger's level is its effective one, from itself or an ancestor. As in Java, setting a name's
level sets it for every logger below that name, including those created later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from connect.clock import SYSTEM_CLOCK, Clock
from connect.runtime.errors import BadRequest, NotFound
from connect.runtime.rest_entities import LoggerLevel

__all__ = ["Loggers"]

_log = logging.getLogger(__name__)

_ROOT = "root"
_PAYLOAD = ("kafka", "py4j", "uvicorn")
"""Libraries that log what they send and receive, passwords included, below WARN. Those lines are
never logged, whatever level is set."""
_LONGEST = 250
_MOST = 10_000
_TRACE = 5
_OFF = logging.CRITICAL + 10
_LEVELS = {
    "OFF": _OFF,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
    "ALL": 1,
}


class Loggers:
    """The loggers of this process. Thread-safe.

    Shared by all herders of a process, because loggers are global.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}

    def all(self) -> Mapping[str, LoggerLevel]:
        """Return every existing logger by name."""
        with self._lock:
            return {name: self._level(name) for name in sorted({_ROOT, *_existing()})}

    def get(self, name: str) -> LoggerLevel:
        """Return one logger; `root` and "" name the root logger. Raises `NotFound`."""
        with self._lock:
            name = _named(name)
            if name != _ROOT and name not in _existing():
                raise NotFound(f"Logger {name} not found.")
            return self._level(name)

    def set(self, name: str, level: str) -> list[str]:
        """Set a level (any case) for a logger and those below it. Return the names of all of them.

        Raises `NotFound` for an invalid level, as Java does, and `BadRequest` for a bad name.
        """
        number = self.check_level(level)
        name = _named(name)
        self._check_name(name)
        _log.info("Set the log level of %s and its child loggers to %s", name, level.upper())
        now = self._clock.now_ms()
        with self._lock:
            # Loggers of libraries may be created later.
            affected = {name, *(_PAYLOAD if name == _ROOT else ())}
            affected |= {*(n for n in _existing() if name == _ROOT or n.startswith(name))}
            for affected_name in affected:
                _logger(affected_name).setLevel(_at_least(affected_name, number))
                self._modified[affected_name] = now
            return sorted(affected)

    def _check_name(self, name: str) -> None:
        """Refuse names that would break a log line, or fill the memory, as Python keeps them."""
        if len(name) > _LONGEST or not name.isprintable():
            raise BadRequest(
                f"A logger's name must be printable and at most {_LONGEST} characters long"
            )
        with self._lock:
            if len(self._modified) >= _MOST and name not in self._modified:
                raise BadRequest(f"The levels of {_MOST} loggers are set already")

    def check_level(self, level: str) -> int:
        """Return the number of a level (any case). Raises `NotFound` for an invalid one."""
        number = _LEVELS.get(level.upper())
        if number is None:
            raise NotFound(f"invalid log level '{level}'.")
        return number

    def _level(self, name: str) -> LoggerLevel:
        return LoggerLevel(_level_name(_logger(name)), self._modified.get(name))


def _at_least(name: str, number: int) -> int:
    payload = name.partition(".")[0] in _PAYLOAD
    return max(number, logging.WARNING) if payload else number


def _named(name: str) -> str:
    return _ROOT if name in ("", _ROOT) else name


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == _ROOT else logging.getLogger(name)


def _existing() -> list[str]:
    """Return the names of existing loggers, without placeholders for packages between them."""
    known = dict(logging.Logger.manager.loggerDict)
    return [name for name, logger in known.items() if isinstance(logger, logging.Logger)]


def _level_name(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    for name, number in _LEVELS.items():
        if effective >= number:
            return name
    return "ALL"
