"""`GET /metrics`: the registry as Prometheus reads it."""

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
    """All metrics in the name families A, B and C, or in those asked for."""
    return metrics_response(request.app.state.site.metrics, family)


def metrics_response(registry: MetricRegistry, family: Sequence[str]) -> Response:
    """Raises ConfigError for a family that is none."""
    blocks = render(registry.collect(), parse_families(family))
    return StreamingResponse(_encoded(blocks), headers={"content-type": CONTENT_TYPE})


def _encoded(blocks: Iterable[str]) -> Iterable[bytes]:
    """Block by block: a page of many partitions is never in memory as a whole."""
    for block in blocks:
        yield block.encode()
