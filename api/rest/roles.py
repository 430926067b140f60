"""Roles of the REST API's users, and what each may do.

A viewer reads; an operator also pauses, resumes, stops and restarts; an admin may do everything.
Users of a password file without a role are admins, as all users are in Java. Users of certificates
and tokens without a role may do nothing.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping

from connect.config.definition import ConfigDef
from connect.config.rest_access_keys import ADMINS, OPERATORS, REST_ACCESS_KEYS, VIEWERS
from connect.config.types import invalid_value

__all__ = ["Role", "required_role", "roles_of"]


class Role(enum.IntEnum):
    """Each role may do all that those before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


_READS = ("GET", "HEAD", "OPTIONS")
_CONNECTOR = r"/connectors/[^/]+"
_RULES = (
    (Role.VIEWER, "PUT", re.compile(r"/connector-plugins/[^/]+/config/validate/?")),
    (Role.OPERATOR, "PUT", re.compile(rf"{_CONNECTOR}/(?:pause|resume|stop|topics/reset)/?")),
    (Role.OPERATOR, "POST", re.compile(rf"{_CONNECTOR}/(?:tasks/[^/]+/)?restart/?")),
)


def required_role(method: str, path: str) -> Role:
    """Return the least role that may make a request. A route without a rule needs an admin."""
    if method in _READS:
        return Role.VIEWER
    for role, of, pattern in _RULES:
        if method == of and pattern.fullmatch(path):
            return role
    return Role.ADMIN


def roles_of(props: Mapping[str, str], users: Collection[str] | None) -> dict[str, Role]:
    """Return the roles that a worker's properties give to its users. `users`: the names that there
    can be; None: any. Raises ConfigError for another name, or one that has two roles."""
    found: dict[str, tuple[Role, str]] = {}
    parsed = ConfigDef(REST_ACCESS_KEYS).parse(props)
    for key, role in ((VIEWERS, Role.VIEWER), (OPERATORS, Role.OPERATOR), (ADMINS, Role.ADMIN)):
        for name in parsed.strings(key):
            if users is not None and name not in users:
                raise invalid_value(key, name, "the file of users has no such user")
            if name in found:
                raise invalid_value(key, name, f"{found[name][1]} names this user, too")
            found[name] = role, key
    return {name: role for name, (role, _) in found.items()}
