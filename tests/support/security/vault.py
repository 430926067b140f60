"""A server that speaks the part of HashiCorp Vault's HTTP API that reads secrets."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any

__all__ = ["VaultServer"]


class VaultServer:
    """Serves on a port of its own, from `with` to its end. Its attributes may be changed at any
    time."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, Any]] = {}
        """Request path after `/v1/` -> the answer's `data`."""
        self.lease_s = 0
        self.tokens = {"root-token-canary"}
        self.logins: dict[str, dict[str, str]] = {}
        """Path of a login -> the body that it needs."""
        self.login_lease_s = 100
        self.namespace: str | None = None
        self.status = 0
        """Answer everything with this status; 0: as usual."""
        self.asked: list[str] = []
        vault = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                vault._serve(self, None)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                vault._serve(self, json.loads(self.rfile.read(length)))

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> VaultServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def _serve(self, handler: http.server.BaseHTTPRequestHandler, body: Any) -> None:
        path = handler.path.removeprefix("/v1/")
        self.asked.append(path)
        status, answer = self._answer(path, handler, body)
        data = json.dumps(answer).encode()
        handler.send_response(status)
        if 300 <= status < 400:
            handler.send_header("Location", f"{self.url}/v1/elsewhere")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _answer(
        self, path: str, handler: http.server.BaseHTTPRequestHandler, body: Any
    ) -> tuple[int, Any]:
        if self.status:
            return self.status, {"errors": ["server-text-canary"]}
        if handler.headers.get("X-Vault-Namespace") != self.namespace:
            return 404, {"errors": []}
        if body is not None:
            if self.logins.get(path) != body:
                return 400, {"errors": ["invalid role or secret ID"]}
            token = f"login-token-{len(self.asked)}"
            self.tokens.add(token)
            return 200, {"auth": {"client_token": token, "lease_duration": self.login_lease_s}}
        if handler.headers.get("X-Vault-Token") not in self.tokens:
            return 403, {"errors": ["permission denied"]}
        if path not in self.secrets:
            return 404, {"errors": []}
        return 200, {"data": self.secrets[path], "lease_duration": self.lease_s}
