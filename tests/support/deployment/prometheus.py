"""A Prometheus that scrapes a mirror and evaluates the rules of `deploy/prometheus/alerts.yml`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import yaml

from deploy.brokers import GuardedProcess
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.deployment.monitoring import ALERTS, SCRAPES

__all__ = ["PROGRAM", "Prometheus", "prometheus"]

PROGRAM = shutil.which("prometheus")
_ANSWER_S = 10.0


class Prometheus:
    """A running server."""

    def __init__(self, address: str) -> None:
        self._address = address

    def firing(self) -> list[str]:
        """The names of the alerts that fire now; none while the server does not answer."""
        try:
            with urlopen(f"{self._address}/api/v1/alerts", timeout=_ANSWER_S) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except (URLError, OSError):
            return []
        return [each["labels"]["alertname"] for each in alerts if each["state"] == "firing"]

    def scrapes(self) -> bool:
        """Whether it gets the mirror's metrics."""
        try:
            with urlopen(f"{self._address}/api/v1/targets", timeout=_ANSWER_S) as answer:
                targets = json.load(answer)["data"]["activeTargets"]
        except (URLError, OSError):
            return False
        return [each["health"] for each in targets] == ["up"]


@contextmanager
def prometheus(listener: str, directory: Path) -> Iterator[Prometheus]:
    """Run a server with the scrape configuration of deploy/compose, pointed at `listener`."""
    assert PROGRAM is not None
    configuration = yaml.safe_load(SCRAPES.read_text())
    configuration["rule_files"] = [str(ALERTS)]
    configuration["scrape_configs"][0]["static_configs"] = [
        {"targets": [urlsplit(listener).netloc]}
    ]
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    lease = PortLease(cache_directory() / "ports")
    address = f"{LOOPBACK}:{lease.port}"
    command = [
        PROGRAM,
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'prometheus'}",
        f"--web.listen-address={address}",
    ]
    try:
        with GuardedProcess(command, directory / "prometheus.log"):
            yield Prometheus(f"http://{address}")
    finally:
        lease.close()
