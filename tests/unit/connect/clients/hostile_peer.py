"""A peer that sends the bytes it is told to, whatever it is asked: hostile, not a broker."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType
from typing import Any, Self

from kafka.protocol.metadata import ApiVersionsResponse

__all__ = ["HostilePeer", "api_versions_frame", "frame", "response_frame", "unused_port"]

_TIMEOUT_S = 10.0
METADATA_RANGE = (3, 0, 13)


class HostilePeer:
    """Listens on loopback; to the first that connects it sends `script`, then reads to the end."""

    def __init__(self, script: bytes) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_TIMEOUT_S)
        self.port: int = self._listener.getsockname()[1]
        self.received = bytearray()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(_TIMEOUT_S)
            connection.sendall(self._script)
            try:
                while data := connection.recv(65536):
                    self.received += data
            except OSError:
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.close()
        self._thread.join(_TIMEOUT_S)


def frame(correlation_id: int, body: bytes, size: int | None = None) -> bytes:
    """A response frame; `size` where it shall lie about its length."""
    length = 4 + len(body) if size is None else size
    return struct.pack(">ii", length, correlation_id) + body


def response_frame(correlation_id: int, response: Any) -> bytes:
    """A kafka-python response as it goes over the wire."""
    response.with_header(correlation_id=correlation_id)
    return bytes(response.encode(header=True, framed=True))


def api_versions_frame(
    correlation_id: int, *apis: tuple[int, int, int], version: int = 3, error_code: int = 0
) -> bytes:
    """An ApiVersions answer; `apis` are (key, lowest, highest)."""
    keys = [
        ApiVersionsResponse.ApiVersion(
            version=version, api_key=key, min_version=low, max_version=high
        )
        for key, low, high in apis
    ]
    response = ApiVersionsResponse(version=version, error_code=error_code, api_keys=keys)
    return response_frame(correlation_id, response)


def unused_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
