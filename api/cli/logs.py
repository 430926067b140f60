"""Logging of the command-line programs on stderr, as text or as JSON, one line an event. As text,
further lines of a message or a traceback are indented, so that no name can look like an event.

With `--log-format json`, or CONNECT_LOG_FORMAT=json, each line is an object with `time` (UTC),
`level`, `logger`, `message` and `thread`; `flow`, `connector` and `task` if the thread works for
them; and `exception`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from api.cli.output.control_characters import indented
from api.cli.output.log_repeats import RepeatLimit, fields_of
from connect.config.secrets import without_secrets
from connect.errors import ConfigError

__all__ = ["add_log_option", "configure_logging"]

TEXT, JSON = LOG_FORMATS = ("text", "json")
LOG_FORMAT_VARIABLE = "CONNECT_LOG_FORMAT"

FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s (%(name)s)"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"

CHATTY = ("kafka", "uvicorn", "asyncio")
"""Libraries whose progress messages do not help operators; their warnings are kept."""


class _Redacting(logging.Formatter):
    """Removes all known secrets from the finished text, tracebacks included. Levels that are set
    while the program runs do not touch it."""

    def format(self, record: logging.LogRecord) -> str:
        return indented(without_secrets(super().format(record)))


class _JsonLines(logging.Formatter):
    """Formats an event as one line of JSON, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            "thread": record.threadName,
            **_fields(record),
        }
        if record.exc_info:
            document["exception"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(document, ensure_ascii=False)


_FLOW = re.compile(r"(?:flow )?([\w.-]+->[\w.-]+)\b")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Return flow, connector and task of an event, in this order, as far as they are known."""
    fields = fields_of(record)
    # A thread of the whole process begins its message with the flow.
    named = None if "flow" in fields else _FLOW.match(record.getMessage())
    found = {**fields} if named is None else {**fields, "flow": named[1]}
    return {name: found[name] for name in ("flow", "connector", "task") if name in found}


def add_log_option(parser: argparse.ArgumentParser) -> None:
    """Add `--log-format`, which sets `log_format`."""
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        help=f"format of the log (default: ${LOG_FORMAT_VARIABLE}, else text)",
    )


def configure_logging(
    level: int = logging.INFO,
    log_format: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Send log messages of `level` and above to stderr. Call once, at the start of a program.

    `log_format`: None takes it from the environment. Raises `ConfigError`. Equal messages are
    limited to a few a minute, and counted.
    """
    chosen = log_format or environment.get(LOG_FORMAT_VARIABLE) or TEXT
    if chosen not in LOG_FORMATS:
        raise ConfigError(
            f"Invalid value {chosen} for {LOG_FORMAT_VARIABLE}: use {' or '.join(LOG_FORMATS)}"
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if chosen == JSON else _Redacting(FORMAT, TIME_FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [RepeatLimit(handler)]
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
