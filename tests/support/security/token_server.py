"""An OAuth server on loopback. It answers requests for tokens and for the keys that sign them."""

from __future__ import annotations

import base64
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["AMPLE_S", "TokenServer", "running_token_server", "unsecured_token"]

AMPLE_S = 20.0


class TokenServer(ThreadingHTTPServer):
    """Answers every POST with `status` and `answer`; keeps what it was asked."""

    status = 200
    answer: bytes = b'{"access_token": "t-0", "expires_in": 100}'
    location: str | None = None
    judge: Callable[[dict[str, str], str | None], tuple[int, bytes]] | None = None
    """Decides from a request's form and Authorization, in place of `status` and `answer`."""
    keys: bytes = b'{"keys": []}'
    """The JSON Web Key Set, which every GET is answered with."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str | None, dict[str, str]]] = []
        self.gate = threading.Event()
        """Answers wait for it."""
        self.gate.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/keys"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, TokenServer)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(server.keys)))
        self.end_headers()
        self.wfile.write(server.keys)

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, TokenServer)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = dict(urllib.parse.parse_qsl(body))
        server.asked.append((self.headers["Authorization"], form))
        server.gate.wait(AMPLE_S)
        status, answer = (
            (server.status, server.answer)
            if server.judge is None
            else server.judge(form, self.headers["Authorization"])
        )
        self.send_response(status)
        if server.location is not None:
            self.send_header("Location", server.location)
        # As RFC 6749 wants it; librdkafka takes no other answer.
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def running_token_server() -> Iterator[TokenServer]:
    with TokenServer() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join(5)


def unsecured_token(claims: dict[str, Any]) -> str:
    """A token without a signature, as brokers without a validator take it."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    encoded = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])
