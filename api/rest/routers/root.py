"""`GET /`: the worker's version and cluster."""

from __future__ import annotations

import json
from importlib import metadata

from fastapi import APIRouter
from fastapi.responses import Response

from api.rest.dependencies import FAILURES, HerderDep, json_answer
from api.rest.models import ServerInfo

__all__ = ["DISTRIBUTION", "UNKNOWN", "commit", "router", "version"]

DISTRIBUTION = "kafka-connect-mirror"
UNKNOWN = "unknown"

_COMMIT_DIGITS = 16
"""Length of the commit ID, as in Java."""

router = APIRouter(responses=FAILURES, tags=["worker"])


@router.get("/", response_model=ServerInfo)
def server_info(herder: HerderDep) -> Response:
    """Return the worker's version and the ID of its Kafka cluster."""
    return json_answer(
        ServerInfo(version=version(), commit=commit(), kafka_cluster_id=herder.kafka_cluster_id())
    )


def version() -> str:
    """Return the version of the installed package."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def commit() -> str:
    """Return the source commit of the installed package, if pip recorded it."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        noted = json.loads(text or "{}").get("vcs_info", {}).get("commit_id", UNKNOWN)
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return UNKNOWN
    return str(noted)[:_COMMIT_DIGITS]
