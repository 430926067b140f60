"""New connections use key and trust stores as they are now; broken ones change nothing."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from connect.clients.security.tls import server_ssl_context, ssl_context
from tests.support.security.certificates import Authority

AMPLE_S = 20.0


def put(path: Path, *parts: str) -> None:
    """Replace the file in one step, as those who renew certificates do."""
    new = path.with_suffix(".new")
    new.write_text("".join(parts))
    os.replace(new, path)


class Stores:
    """One side's key and trust store."""

    def __init__(self, directory: Path, name: str) -> None:
        self.key, self.trusted = directory / f"{name}.pem", directory / f"{name}-ca.pem"
        self._name = name

    def issue(self, by: Authority, trusting: Authority) -> None:
        put(self.key, *by.issue(self._name, "127.0.0.1"))
        put(self.trusted, trusting.pem)

    @property
    def properties(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "ssl.client.auth": "required",
        }


@contextmanager
def answering(context: ssl.SSLContext) -> Iterator[tuple[str, int]]:
    """A server that sends one byte to each client that may connect."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            while True:
                try:
                    plain, _ = listening.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(plain, server_side=True) as secure:
                        secure.sendall(b"!")
                except OSError:
                    plain.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(AMPLE_S)


def admitted(address: tuple[str, int], context: ssl.SSLContext) -> bool:
    try:
        with (
            socket.create_connection(address, timeout=AMPLE_S) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            return secure.recv(1) == b"!"
    except OSError:
        return False


def test_both_sides_take_up_new_keys_and_new_authorities(tmp_path: Path) -> None:
    """Each file that is replaced alone, too: neither side is restarted."""
    client, server = Stores(tmp_path, "client"), Stores(tmp_path, "server")
    first, second = Authority(), Authority()
    client.issue(first, trusting=first)
    server.issue(first, trusting=first)
    context = ssl_context(client.properties)
    with answering(server_ssl_context(server.properties)) as address:
        assert admitted(address, context)
        server.issue(second, trusting=first)
        assert not admitted(address, context), "the client does not know the second authority"
        client.issue(first, trusting=second)
        assert admitted(address, context)
        server.issue(second, trusting=second)
        assert not admitted(address, context), "the first authority counts no more"
        client.issue(second, trusting=second)
        assert admitted(address, context)


def test_stores_that_cannot_be_read_leave_the_previous_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client, server = Stores(tmp_path, "client"), Stores(tmp_path, "server")
    authority = Authority()
    client.issue(authority, trusting=authority)
    server.issue(authority, trusting=authority)
    context = ssl_context(client.properties)
    with (
        caplog.at_level(logging.ERROR),
        answering(server_ssl_context(server.properties)) as address,
    ):
        put(client.key, "half a file")
        client.trusted.unlink()
        assert all(admitted(address, context) for _ in range(2))
    (said,) = [each.getMessage() for each in caplog.records]
    assert "ssl.truststore.location" in said
