"""`/ui`: the dashboard. The page and its modules are files of the package; data comes from
`/mirrors` and Connect's REST calls."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from api.rest.errors import RestError

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    # No inline scripts or styles, nothing from elsewhere, and no page around this one.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """The content and ETag of each file, by name."""
    found = {}
    for each in resources.files("api.ui").iterdir():
        if each.name.rpartition(".")[2] in _TYPES:
            content = each.read_bytes()
            found[each.name] = (content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


@router.get("/ui")
def page(request: Request) -> Response:
    """The page."""
    return _file(request, "index.html")


@router.get("/ui/{name}")
def file(request: Request, name: Annotated[str, Path()]) -> Response:
    """A module, the styles or the icon."""
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    if name not in _files():
        raise RestError(404, f"The dashboard has no file {name}")
    content, tag = _files()[name]
    headers = {**_HEADERS, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)
