"""JAAS login files: named entries of login modules, as `java.security.auth.login.config` names one.

KafkaClient {
    com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true keyTab="/etc/security/mirror.keytab" principal="mirror/host@REALM";
};
"""

from __future__ import annotations

import re
from pathlib import Path

from connect.clients.security.jaas import LoginModule, parse_jaas
from connect.config.types import invalid_value

__all__ = ["LOGIN_CONFIG", "read_jaas_entry"]

LOGIN_CONFIG = "java.security.auth.login.config"

_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_ENTRY = re.compile(
    r"""(?P<name>[^\s{}"';]+)\s*\{(?P<body>(?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\}\s*;""",
)


def read_jaas_entry(location: str, name: str) -> LoginModule:
    """Return the login module of the entry `name`. `location` is a path or a file: URL.

    Raises ConfigError with the key `LOGIN_CONFIG`, without quoting the file.
    """
    try:
        text = Path(location.removeprefix("file:")).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise invalid_value(LOGIN_CONFIG, location, f"cannot be read: {reason}") from error
    plain = _COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    entries = {found["name"]: found["body"] for found in _ENTRY.finditer(plain)}
    if name not in entries:
        raise invalid_value(LOGIN_CONFIG, location, f"it has no entry {name} {{ ... }};")
    return parse_jaas(entries[name])
