"""A collector of OpenTelemetry metrics: an HTTP server that reads what is sent to it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["OtlpReceiver", "Request", "otlp_receiver"]

_PATIENCE_S = 30.0
_POLL_S = 0.05


@dataclass(frozen=True)
class Request:
    """One request, with the protobuf message that it held."""

    path: str
    headers: dict[str, str]
    message: Any

    def resource(self) -> dict[str, str]:
        return _texts(self.message.resource_metrics[0].resource.attributes)

    def metrics(self) -> dict[str, Any]:
        return {
            metric.name: metric
            for resource in self.message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def _texts(attributes: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in attributes}


@dataclass
class OtlpReceiver:
    """What has arrived. `refusals` are the HTTP statuses of the next answers."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def taken(self, request: Request) -> int:
        """Keep a request and return the status of its answer."""
        with self._changed:
            if self.refusals:
                return self.refusals.pop(0)
            self.requests.append(request)
            self._changed.notify_all()
            return 200

    def wait_for(self, found: Callable[[list[Request]], bool]) -> list[Request]:
        """Return all requests as soon as they are as `found` wants them."""
        with self._changed:
            assert self._changed.wait_for(lambda: found(self.requests), _PATIENCE_S)
            return list(self.requests)


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Run a receiver on a free port."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    receiver = OtlpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            message = ExportMetricsServiceRequest.FromString(body)
            self.send_response(receiver.taken(Request(self.path, headers, message)))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Tests need no access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join(_PATIENCE_S)
