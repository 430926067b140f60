"""An https listener takes up renewed certificates without a restart."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.security.certificates import Authority
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import StartServer


def serial(url: str, authority: Authority) -> str:
    """Of the certificate that a new connection gets."""
    parts = urlsplit(url)
    with (
        socket.create_connection((parts.hostname, parts.port), timeout=20) as plain,
        authority.client_context().wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        shown = secure.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def store(path: Path, pair: tuple[str, str]) -> None:
    """Replace the file in one step, as those who renew certificates do."""
    new = path.with_suffix(".new")
    new.write_text("".join(pair))
    os.replace(new, path)


def test_a_renewed_certificate_is_shown_and_a_broken_one_is_not(
    tmp_path: Path, herder: InMemoryHerder, start_server: StartServer
) -> None:
    authority, path = Authority(), tmp_path / "server.pem"
    store(path, authority.issue("first", "127.0.0.1"))
    url = start_server(
        herder,
        {
            "listeners": "https://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(path),
        },
    )
    first = serial(url, authority)
    assert serial(url, authority) == first
    store(path, authority.issue("second", "127.0.0.1"))
    second = serial(url, authority)
    assert second != first
    store(path, ("no key", "no certificate"))
    assert serial(url, authority) == second
