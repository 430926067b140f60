"""Our Connect workers as child processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.brokers import GuardedProcess
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.properties_files import properties_text
from tests.support.rest import call
from tests.support.waiting import wait_until

__all__ = ["is_healthy", "standalone_process", "standalone_worker"]

_START_S = 60.0
_STOP_S = 30.0


def is_healthy(url: str) -> bool:
    """Whether a worker's `/health` says so."""
    try:
        return call(url, "GET", "/health").status == 200
    except OSError:
        return False


def standalone_process(
    properties: Mapping[str, str],
    directory: Path,
    log: Path,
    files: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
) -> GuardedProcess:
    """Start `connect-standalone` with these properties; `directory` gets the file."""
    path = directory / "worker.properties"
    path.write_text(properties_text(properties))
    command = [sys.executable, "-m", "api.cli.standalone", str(path), *map(str, files)]
    return GuardedProcess(command, log, environment=environment)


@contextmanager
def standalone_worker(
    properties: Mapping[str, str], directory: Path, log: Path, files: Sequence[Path] = ()
) -> Iterator[str]:
    """The URL of a standalone worker that has started."""
    lease = PortLease(cache_directory() / "ports")
    url = f"http://{LOOPBACK}:{lease.port}"
    try:
        props = {"listeners": url, **properties}
        with standalone_process(props, directory, log, files) as process:

            def ready() -> bool:
                assert process.running(), f"the worker has ended; see {log}"
                return is_healthy(url)

            wait_until(ready, _START_S, "start of the worker")
            yield url
            assert process.stop(_STOP_S) == 0
    finally:
        lease.close()
