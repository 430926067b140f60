"""Asks a running mirror for its state, over HTTP: `/health` and the pages below `/mirrors`."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any
from urllib.parse import quote, urlsplit

from connect.clients.rest_client import RestAnswer, RestClient, WorkerUnreachable
from connect.errors import ConfigError, ConnectError
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig

__all__ = ["RunningMirror", "add_url_option", "listener_url", "measured_rates"]

TIMEOUT_S = 20.0
"""Longer than a mirror takes to ask its clusters for the offsets of groups."""
_RATE = re.compile(r"kafka_connect_mirror_mirrorsourceconnector_record_rate\{(.*)\} ([0-9.e+-]+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_EVERY_ADDRESS = ("0.0.0.0", "::")


def add_url_option(parser: argparse.ArgumentParser) -> None:
    """Add `--url`, which sets `url`."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help="address of a running mirror (default: metrics.listener of the file)",
    )


def listener_url(config: MirrorMakerConfig) -> str:
    """Return the URL at which this machine reaches `metrics.listener`. Raises `ConfigError` if
    there is none."""
    listener = config.metrics_listener
    if not listener:
        raise ConfigError(
            "metrics.listener is empty, so a running mirror cannot be asked: set it, or use --url",
            key="metrics.listener",
        )
    parts = urlsplit(listener)
    host = parts.hostname or ""
    host = "127.0.0.1" if host in ("", *_EVERY_ADDRESS) else host
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{parts.port}"


def measured_rates(config: MirrorMakerConfig) -> dict[str, float]:
    """Return the records per second that the running mirror copies now, by flow; empty if none
    runs."""
    if not config.metrics_listener:
        return {}
    try:
        return RunningMirror(listener_url(config)).rates()
    except ConnectError:
        return {}


class RunningMirror:
    """The pages of one process of a mirror. Any process of a flow's group answers for the group."""

    def __init__(self, url: str, client: RestClient | None = None) -> None:
        self.url = url.rstrip("/")
        self._client = client or RestClient(timeout_s=TIMEOUT_S)

    def health(self) -> dict[str, Any]:
        """Return `/health?verbose`. Raises `WorkerUnreachable`."""
        found: dict[str, Any] = self._get("/health?verbose=true")
        return found

    def lag(self, flow: str) -> dict[str, Any]:
        """Return `/mirrors/{flow}/lag`. Raises `WorkerUnreachable`, and `ConnectError` if the
        mirror has no such flow."""
        found: dict[str, Any] = self._get(f"/mirrors/{quote(flow, safe='')}/lag")
        return found

    def flows(self) -> list[dict[str, Any]]:
        """Return the flows of `/mirrors`. Raises `WorkerUnreachable`, and `ConnectError` if the
        mirror has no such page."""
        found: list[dict[str, Any]] = self._get("/mirrors")["flows"]
        return found

    def flow_page(self, flow: str, page: str) -> dict[str, Any]:
        """Return `/mirrors/{flow}/{page}`. Raises as `lag` does."""
        found: dict[str, Any] = self._get(f"/mirrors/{quote(flow, safe='')}/{page}")
        return found

    def rates(self) -> dict[str, float]:
        """Return the records per second of each flow whose partitions this process copies, without
        flows that copy nothing now. Raises `WorkerUnreachable`."""
        rates: dict[str, float] = {}
        for line in self._ask("/metrics?family=A").body.decode().splitlines():
            found = _RATE.match(line)
            if found is not None:
                labels = dict(_LABEL.findall(found[1]))
                flow = f"{labels.get('source')}->{labels.get('target')}"
                rates[flow] = rates.get(flow, 0.0) + float(found[2])
        return {flow: rate for flow, rate in rates.items() if rate > 0}

    def _get(self, path: str) -> Any:
        answer = self._ask(path)
        try:
            found = json.loads(answer.body)
        except ValueError as error:
            raise ConnectError(
                f"{self.url} is not a mirror: {path} answered {answer.status} without JSON"
            ) from error
        if "error_code" in found:
            raise ConnectError(f"{self.url}{path}: {found.get('message')}")
        return found

    def _ask(self, path: str) -> RestAnswer:
        try:
            return self._client.request("GET", self.url + path)
        except WorkerUnreachable as error:
            raise WorkerUnreachable(
                f"No mirror answers at {self.url}: {error.__cause__ or error}. Start it, or name "
                "another one with --url. connect-mirror lag needs no running mirror"
            ) from error
