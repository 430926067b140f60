"""`GET /metrics`: the metrics registry as Prometheus text or OpenMetrics."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from connect.metrics.exposition import PageFormat, render
from connect.metrics.naming import parse_families
from connect.metrics.registry import MetricRegistry

__all__ = ["metrics_response", "router"]

router = APIRouter(tags=["worker"])


@router.get("/metrics")
def metrics(request: Request, family: Annotated[Sequence[str], Query()] = ()) -> Response:
    """Return all metrics in the name family A, or in the requested families (A, B, C)."""
    return metrics_response(request, request.app.state.site.metrics, family)


def metrics_response(request: Request, registry: MetricRegistry, family: Sequence[str]) -> Response:
    """Create the response, in the format that the client prefers, compressed if it accepts gzip.
    Raises ConfigError for an unknown family."""
    page_format = _format(request.headers.get("accept", ""))
    blocks = _encoded(render(registry.collect(), parse_families(family), page_format))
    headers = {"content-type": page_format.value, "vary": "Accept, Accept-Encoding"}
    weights = _weights(request.headers.get("accept-encoding", ""))
    if weights.get("gzip", weights.get("*", 0)) > 0:
        return StreamingResponse(
            _compressed(blocks), headers=headers | {"content-encoding": "gzip"}
        )
    return StreamingResponse(blocks, headers=headers)


def _format(accept: str) -> PageFormat:
    """Return OpenMetrics for clients that name it, unless they would rather have text."""
    weights = _weights(accept)
    offered = weights.get("application/openmetrics-text", 0)
    wanted = offered > 0 and offered >= weights.get("text/plain", 0)
    return PageFormat.OPEN_METRICS if wanted else PageFormat.TEXT


def _weights(header: str) -> dict[str, float]:
    """Return the names of an Accept or Accept-Encoding header with their weights, for a repeated
    name the highest. A weight that is not a number counts as 0."""
    weights: dict[str, float] = {}
    for element in header.lower().split(","):
        name, *parameters = (part.strip() for part in element.split(";"))
        weight = 1.0
        for parameter in parameters:
            key, _, value = parameter.replace(" ", "").partition("=")
            if key == "q":
                weight = _number(value)
        weights[name] = max(weight, weights.get(name, 0))
    return weights


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _encoded(blocks: Iterable[str]) -> Iterator[bytes]:
    """Encode block by block, so that a page of many partitions is never in memory as a whole."""
    for block in blocks:
        yield block.encode()


def _compressed(blocks: Iterable[bytes]) -> Iterator[bytes]:
    # The fastest level: names and labels repeat, so that it finds nearly as much as the others.
    compressor = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    for block in blocks:
        if found := compressor.compress(block):
            yield found
    yield compressor.flush()
