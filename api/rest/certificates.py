"""Users by client certificate: the rules of `rest.ssl.principal.mapping.rules`.

Syntax and meaning are those of brokers' `ssl.principal.mapping.rules` (KIP-371): a list of
`RULE:pattern/replacement/[LU]` and `DEFAULT`; the first rule whose pattern matches the whole
subject names the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from connect.config.java_regex import JavaRegex, JavaRegexError, compile_java_regex
from connect.config.rest_access_keys import CERTIFICATE_RULES
from connect.config.types import invalid_value

__all__ = ["CertificateRules"]

_RULE = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\Z)", re.DOTALL
)
_REFERENCE = re.compile(r"\$([0-9])")


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: JavaRegex
    replacement: str
    case: str


class CertificateRules:
    """The parsed rules. Immutable; safe to use from any thread."""

    def __init__(self, text: str) -> None:
        """Parse the rules. Raises `ConfigError` for an invalid one."""
        self._rules: list[_Rule | None] = []
        at = 0
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                raise invalid_value(
                    CERTIFICATE_RULES,
                    text,
                    "use a list of DEFAULT and RULE:pattern/replacement/, with L or U after the "
                    f"last slash for lower or upper case; the error is at position {at}",
                )
            at = found.end()
            self._rules.append(None if found[1] else _rule(found[2], found[3], found[4]))

    def user(self, subject: str) -> str | None:
        """Return the user of a certificate with this subject (RFC 4514); None if no rule matches,
        or if the rule leaves an empty name."""
        for rule in self._rules:
            if rule is None:
                return subject or None
            found = rule.pattern.fullmatch(subject)
            if found is None:
                continue
            groups = [found.group(number) or "" for number in range(found.re.groups + 1)]
            name = _filled(rule.replacement, groups)
            name = {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
            return name.strip() or None
        return None


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        return _Rule(compile_java_regex(pattern), replacement, case)
    except JavaRegexError as error:
        raise invalid_value(CERTIFICATE_RULES, pattern, str(error)) from error


def _filled(replacement: str, groups: Sequence[str]) -> str:
    """Replace `$1` by the first group, and so on. A number without a group stays."""

    def group(reference: re.Match[str]) -> str:
        number = int(reference[1])
        return groups[number] if number < len(groups) else reference[0]

    return _REFERENCE.sub(group, replacement)
