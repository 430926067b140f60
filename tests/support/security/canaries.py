"""Secrets that a test can recognise wherever they turn up: in logs, answers, databases and command
lines, also encoded."""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections.abc import Callable, Container, Mapping
from pathlib import Path

import psutil

from connect.config.definition import ConfigType
from connect.config.security import SECURITY_KEYS

__all__ = ["PASSWORD_KEYS", "Canaries", "jaas_quoted", "properties_text"]

PASSWORD_KEYS = tuple(
    key.name
    for key in SECURITY_KEYS
    if key.type is ConfigType.PASSWORD and key.name != "sasl.jaas.config"
)
"""Keys of every Kafka client that hold one secret each."""

# What texts escape, each in its way.
_AWKWARD = "\"'\\%&= "
# Base64 of a text inside another one begins at one of three places of it.
_ALIGNMENTS = 3


class Canaries:
    """Unique secrets, and the place that each stands in."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}

    def new(self, place: str, tail: str = "") -> str:
        """A secret for `place`; it is recognised by its begin, `tail` is only part of it."""
        core = f"canary{uuid.uuid4().hex}"
        self._places[core] = place
        return core + tail

    def awkward(self, place: str) -> str:
        """A secret with characters that texts escape."""
        return self.new(place, f"{_AWKWARD}end")

    def of_clients(self, prefix: str = "") -> dict[str, str]:
        """A secret for each key in `PASSWORD_KEYS`, with a prefix before the key. Certificates are
        of that type, but public."""
        keys = [key for key in PASSWORD_KEYS if "certificate" not in key]
        return {f"{prefix}{key}": self.new(f"{prefix}{key}") for key in keys}

    def leaked(self, what: str, text: str | bytes, *, besides: Container[str] = ()) -> list[str]:
        """A sentence for each secret that `text` contains, as it is or in base64, besides those of
        some places."""
        content = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
        return [
            f"{place} in {what}: {self._around(content, sign)!r}"
            for core, place in self._places.items()
            for sign in _signs(core)
            if sign in content and place not in besides
        ]

    def leaked_by_files(self, *files: Path) -> list[str]:
        return [found for file in files for found in self.leaked(file.name, file.read_bytes())]

    def leaked_by_processes(self, pid: int, *, by_design: Container[str] = ()) -> list[str]:
        """In command lines, titles and environments of the process and of all it started.
        `by_design`: places whose secrets may be in an environment."""
        process = psutil.Process(pid)
        found = []
        for each in (process, *process.children(recursive=True)):
            # One that has ended meanwhile shows nothing any more.
            with contextlib.suppress(psutil.NoSuchProcess):
                name = each.name()
                found += self.leaked(f"command line of {name}", "\0".join(each.cmdline()))
                variables = "\0".join(f"{key}={value}" for key, value in each.environ().items())
                found += self.leaked(f"environment of {name}", variables, besides=by_design)
        return found

    def leaked_by_answers(
        self, ask: Callable[[str], tuple[int, bytes]], paths: Mapping[str, int | None]
    ) -> list[str]:
        """In the answers to GET of these paths, each of which has to have its status (None:
        any)."""
        found = []
        for path, wanted in paths.items():
            status, body = ask(path)
            assert wanted in (None, status), f"{path}: {status} {body!r}"
            found += self.leaked(f"GET {path}", body)
        return found

    @staticmethod
    def _around(content: bytes, sign: bytes) -> bytes:
        at = content.index(sign)
        return content[max(0, at - 120) : at + 60]


def _signs(core: str) -> list[bytes]:
    encoded = [
        base64.b64encode(b"\0" * before + core.encode())[4 if before else 0 : -4]
        for before in range(_ALIGNMENTS)
    ]
    return [core.encode(), *encoded]


def jaas_quoted(secret: str) -> str:
    """A secret within double quotes of `sasl.jaas.config`."""
    return secret.replace("\\", "\\\\").replace('"', '\\"')


def properties_text(properties: Mapping[str, str]) -> str:
    """A properties file."""
    lines = (f"{key}={_escaped(value)}\n" for key, value in properties.items())
    return "".join(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
