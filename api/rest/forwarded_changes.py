"""The headers with which workers report a forwarded change to each other, so that it is in the
flow's history once.

The worker that makes a change writes it, and says so in its response (`RECORDED`). One that
forwarded the request writes it only if nobody did: a worker of Java or of an earlier version. It
says who asked (`SENDER`). A client can send that header too, so the history also has who sent the
request to the worker that wrote it.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Scope

from api.rest.authentication import USER

__all__ = ["RECORDED", "SENDER", "is_forwarded", "sender_header", "sender_of", "take_recorded"]

SENDER, RECORDED = "X-Connect-Change-Sender", "X-Connect-Change-Recorded"

_LONGEST_SENDER = 300
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa1-\U0010ffff]")


def is_forwarded(scope: Scope) -> bool:
    """Whether the request says that a worker forwarded it. Anybody can write that."""
    query = scope.get("query_string", b"").decode("latin-1")
    return "forward" in parse_qs(query, keep_blank_values=True)


def sender_of(scope: Scope) -> str:
    """Return who asks, for people: a user and an address. For a forwarded request, include who
    asked the worker that forwarded it, as that worker says."""
    address = (scope.get("client") or ("?",))[0]
    here = f"{scope[USER]} at {address}" if USER in scope else address
    given = Headers(scope=scope).get(SENDER, "")[:_LONGEST_SENDER]
    if not given or not is_forwarded(scope):
        return here
    return f"{_UNPRINTABLE.sub('?', unquote(given))}, forwarded by {here}"


def sender_header(scope: Scope) -> str:
    """Return `sender_of` as the value of the header."""
    return quote(sender_of(scope), safe=" ,@.:+=/")


def take_recorded(answer: Message, scope: Scope, *, writes: bool) -> bool:
    """Return whether another worker has the change in its history. `writes`: this one will write
    it if not. The response to a forwarded request then says that it is written; to a client it says
    nothing."""
    headers = MutableHeaders(scope=answer)
    recorded = RECORDED in headers
    if is_forwarded(scope) and (recorded or writes):
        headers[RECORDED] = "true"
    elif recorded:
        del headers[RECORDED]
    return recorded
