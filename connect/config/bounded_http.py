"""HTTP requests that carry or fetch secrets: no redirects, limited time and size."""

from __future__ import annotations

import ssl
import urllib.request
from typing import Any

from connect.clock import Deadline

__all__ = ["fetch"]

_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 1 << 20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return None: the redirect becomes an error. Another host would get the secret, or serve
        what is trusted."""


def fetch(
    request: urllib.request.Request, timeout_s: float, tls: ssl.SSLContext | None = None
) -> bytes:
    """Return the body of the answer. Redirects are not followed.

    Raises `urllib.error.HTTPError` for other statuses than success, other `OSError` if there is no
    answer in time, and `ValueError` if the answer is longer than 1 MiB or slow.
    """
    deadline = Deadline(timeout_s)
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=tls))
    body = b""
    with opener.open(request, timeout=timeout_s) as response:
        while part := response.read1(_CHUNK_BYTES):
            body += part
            if len(body) > _MOST_BYTES or deadline.expired():
                raise ValueError("the answer is too long or too slow")
    return body
