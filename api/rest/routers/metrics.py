"""`GET /metrics`: the metrics registry in Prometheus format."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from connect.metrics.exposition import CONTENT_TYPE, parse_families, render
from connect.metrics.registry import MetricRegistry

__all__ = ["metrics_response", "router"]

router = APIRouter(tags=["worker"])


@router.get("/metrics")
def metrics(request: Request, family: Annotated[Sequence[str], Query()] = ()) -> Response:
    """Return all metrics in the name family A, or in the requested families (A, B, C)."""
    return metrics_response(request, request.app.state.site.metrics, family)


def metrics_response(request: Request, registry: MetricRegistry, family: Sequence[str]) -> Response:
    """Create the response, compressed if the client accepts gzip. Raises ConfigError for an unknown
    family."""
    blocks = _encoded(render(registry.collect(), parse_families(family)))
    headers = {"content-type": CONTENT_TYPE, "vary": "Accept-Encoding"}
    if _accepts_gzip(request.headers.get("accept-encoding", "")):
        return StreamingResponse(
            _compressed(blocks), headers=headers | {"content-encoding": "gzip"}
        )
    return StreamingResponse(blocks, headers=headers)


def _accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header names gzip, and not with a weight of 0."""
    for element in header.lower().split(","):
        name, _, weight = element.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


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
