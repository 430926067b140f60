"""`GET /metrics`: the metrics registry in Prometheus format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from connect.metrics.exposition import CONTENT_TYPE, parse_families, render
from connect.metrics.registry import MetricRegistry

__all__ = ["metrics_response", "router"]

router = APIRouter(tags=["worker"])


@router.get("/metrics")
def metrics(request: Request, family: Annotated[Sequence[str], Query()] = ()) -> Response:
    """Return all metrics in the name families A, B and C, or in the requested families."""
    return metrics_response(request.app.state.site.metrics, family)


def metrics_response(registry: MetricRegistry, family: Sequence[str]) -> Response:
    """Create the response. Raises ConfigError for an unknown family."""
    blocks = render(registry.collect(), parse_families(family))
    return StreamingResponse(_encoded(blocks), headers={"content-type": CONTENT_TYPE})


def _encoded(blocks: Iterable[str]) -> Iterable[bytes]:
    """Encode block by block, so that a page of many partitions is never in memory as a whole."""
    for block in blocks:
        yield block.encode()
