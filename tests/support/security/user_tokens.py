"""An OAuth server for tests: its keys over HTTP, and tokens that it signs."""

from __future__ import annotations

import http.server
import json
import threading
import time
from types import TracebackType
from typing import Any, Self

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

__all__ = ["AUDIENCE", "ISSUER", "Issuer"]

jwt: Any = pytest.importorskip("jwt", reason="PyJWT is not installed: make install-test")

ISSUER, AUDIENCE = "https://login.example", "connect"


class Issuer:
    """An OAuth server's keys, served over HTTP, and what it signs with them."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        rsa_key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.rsa.public_key()))
        ec_key = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.ec.public_key()))
        self.keys = [{**rsa_key, "kid": "r", "use": "sig"}, {**ec_key, "kid": "e", "use": "sig"}]
        self.asked = 0
        self.redirect = ""
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                if issuer.redirect:
                    self.send_response(302)
                    self.send_header("Location", issuer.redirect)
                    self.end_headers()
                    return
                body = json.dumps({"keys": issuer.keys}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def props(self) -> dict[str, str]:
        return {
            "rest.oauthbearer.jwks.endpoint.url": f"http://127.0.0.1:{self.server.server_port}/k",
            "rest.oauthbearer.expected.issuer": ISSUER,
            "rest.oauthbearer.expected.audience": f"other,{AUDIENCE}",
            "rest.oauthbearer.roles.claim.name": "realm_access.roles",
        }

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()

    def token(self, roles: object = ("connect-admin",), **claims: Any) -> str:
        every = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "anna",
            "exp": time.time() + 300,
            "realm_access": {"roles": list(roles) if isinstance(roles, tuple) else roles},
            **claims,
        }
        kept = {name: value for name, value in every.items() if value is not None}
        return str(jwt.encode(kept, self.rsa, "RS256", headers={"kid": "r"}))
