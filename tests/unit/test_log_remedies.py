"""Every warning and error of the product's log says what to do, or that nothing has to be done.

A message either says it itself, or ends with the text of an error: errors of ours tell what
happened, to what, and what to do. A message about a defect of ours or of a plugin says so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("connect", "connectors", "api")
LEVELS = {"warning", "error", "exception", "critical"}
_ACTIONS = (
    "set use grant see rename mount add correct install replace exclude report write give check"
    " fix raise delete rejoin(?:ing)? restart(?:ing)?"
)
# What the reader is to do, or what the program does by itself.
REMEDY = re.compile(
    rf"""\b(?:{"|".join(_ACTIONS.split())})\b
    | nothing\ (?:has\ to\ be\ done|that\ is\ copied)
    | (?:asking|trying|try|copied|comes?|sent|connects|read\ more)\ again | retr(?:y|ies)
    | still\ waiting | waits?\ for | until | look\ after | stop\ it | above\ say
    | continu | keep | ignor | skip | killing | all\ the\ same | instead | has\ no\ effect
    | another\ worker""",
    re.IGNORECASE | re.VERBOSE,
)
# Last arguments that are an error, or a text of one.
TELLS = re.compile(
    r"(?:error|reason|text|warning|failure|outcome|message|found|loss|loop|told|trouble|unread"
    r"|offsets|map_refused|late|exception|WITHOUT_NATIVE"
    r"|(?:line|where|_without_url|with_remedy|without_heartbeats|without_map)\([\w, ]+\))$"
)


class Message(NamedTuple):
    """A call of a logger. `last`: the source of its last argument."""

    place: str
    text: str
    last: str


def messages() -> Iterator[Message]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from messages_of(path.read_text(), str(path.relative_to(ROOT)))


def messages_of(source: str, place: str) -> Iterator[Message]:
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr in LEVELS and "log" in ast.unparse(node.func.value).lower():
            first = node.args[0]
            text = first.value if isinstance(first, ast.Constant) else ast.unparse(first)
            last = ast.unparse(node.args[-1]) if len(node.args) > 1 else ""
            yield Message(f"{place}:{node.lineno}", str(text), last)


def says_what_to_do(message: Message) -> bool:
    if REMEDY.search(message.text):
        return True
    return message.text.endswith("%s") and TELLS.search(message.last) is not None


def test_every_warning_says_what_to_do() -> None:
    found = list(messages())
    assert len(found) > 200
    assert [f"{m.place}: {m.text}" for m in found if not says_what_to_do(m)] == []


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('log.warning("%s did not stop in time", name)', False),
        ('log.warning("Threads that did not end: %s", names)', False),
        ('log.exception("%s failed", name)', False),
        ('self._log.error("Cannot read %s: %s", topic, error)', True),
        ('_LOG.warning("%s is slow; still waiting", name)', True),
        ('log.exception("%s failed; this is a defect: report it", name)', True),
    ],
)
def test_messages_without_a_remedy_are_found(call: str, expected: bool) -> None:
    [message] = messages_of(call, "here")
    assert says_what_to_do(message) is expected
