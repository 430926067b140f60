"""Downloads the pinned Kafka jars into the user's cache, once.

A lock file beside this module lists every jar with its SHA-256 and size. A jar gets its final name
only after both were checked, so every jar in the cache is complete. A file lock prevents concurrent
processes from downloading the same jar twice.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import http.client
import os
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from connect import pinned_jars
from connect.pinned_jars import PinnedJar
from deploy.brokers.cache import cache_directory
from deploy.brokers.errors import DownloadFailed
from deploy.brokers.versions import KAFKA_VERSION, lock_file

__all__ = [
    "REPOSITORY_VARIABLE",
    "Progress",
    "fetch_jars",
    "fetch_kafka",
    "read_lock",
]

REPOSITORY_VARIABLE = "KAFKA_JARS_URL"
"""Environment variable: base URL of another Maven repository, for example a company's mirror."""

_THREADS = 8
_ATTEMPTS = 4
_BACKOFF_S = 1.0
_TIMEOUT_S = 30.0
_CHUNK_BYTES = 64 * 1024
_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a download. The totals are exact from the first call."""

    bytes_done: int
    bytes_total: int


def read_lock(text: str) -> tuple[PinnedJar, ...]:
    """Parse a lock file. Raises `DownloadFailed`."""
    try:
        return pinned_jars.read_lock(text)
    except ValueError as error:
        raise DownloadFailed(str(error)) from None


def _repository() -> tuple[str, dict[str, str]]:
    """Return the base URL without credentials, and request headers with the credentials."""
    url = os.environ.get(REPOSITORY_VARIABLE)
    if not url:
        from jgo.constants import MAVEN_CENTRAL_URL

        url = str(MAVEN_CENTRAL_URL)
    parts = urllib.parse.urlsplit(url)
    headers = {"User-Agent": "kafka-connect-mirror"}
    if parts.username is not None:
        user, password = (urllib.parse.unquote(p or "") for p in (parts.username, parts.password))
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers["Authorization"] = f"Basic {token}"
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    if parts.scheme not in ("https", "http", "file"):
        raise DownloadFailed(
            f"{REPOSITORY_VARIABLE} must be a URL that starts with https://; its scheme is "
            f"{parts.scheme!r}"
        )
    return parts.geturl().rstrip("/"), headers


class _Download:
    """Downloads the missing jars of one lock file into one directory."""

    def __init__(
        self,
        missing: Sequence[PinnedJar],
        done: int,
        directory: Path,
        progress: Callable[[Progress], None],
    ) -> None:
        self._missing = missing
        self._directory = directory
        self._base_url, self._headers = _repository()
        self._progress = progress
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._done = done
        self._total = done + sum(artifact.size for artifact in missing)

    def run(self) -> None:
        self._count(0)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="download") as pool:
            futures = [pool.submit(self._fetch, artifact) for artifact in self._missing]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                self._stop.set()
                for future in futures:
                    future.cancel()
        for future in futures:
            if not future.cancelled():
                future.result()

    def _count(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._progress(Progress(self._done, self._total))

    def _fetch(self, artifact: PinnedJar) -> None:
        reason = ""
        for attempt in range(_ATTEMPTS):
            if attempt and self._stop.wait(_BACKOFF_S * 2 ** (attempt - 1)):
                return
            try:
                self._fetch_once(artifact)
                return
            except urllib.error.HTTPError as error:
                error.close()
                reason = f"HTTP status {error.code}"
                if error.code not in _RETRIED_STATUS:
                    break
            except urllib.error.URLError as error:
                reason = str(error.reason)
            except (OSError, http.client.HTTPException, _WrongBytes) as error:
                reason = str(error) or type(error).__name__
        raise DownloadFailed(
            f"Cannot download {artifact.file_name} from {self._base_url}: {reason}. Check the "
            f"network (or set {REPOSITORY_VARIABLE} to a reachable mirror) and try again"
        )

    def _fetch_once(self, artifact: PinnedJar) -> None:
        partial = self._directory / f".{artifact.file_name}.part"
        digest = hashlib.sha256()
        received = 0
        request = urllib.request.Request(
            f"{self._base_url}/{artifact.url_path}", headers=self._headers
        )
        try:
            with (
                urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response,
                partial.open("wb") as output,
            ):
                while chunk := response.read(_CHUNK_BYTES):
                    output.write(chunk)
                    digest.update(chunk)
                    received += len(chunk)
                    self._count(len(chunk))
                    if self._stop.is_set():
                        return
            if received != artifact.size or digest.hexdigest() != artifact.sha256:
                raise _WrongBytes(
                    f"got {received} bytes with SHA-256 {digest.hexdigest()}, but the lock file "
                    f"has {artifact.size} bytes with {artifact.sha256}"
                )
            partial.replace(self._directory / artifact.file_name)
        except BaseException:
            self._count(-received)
            raise
        finally:
            partial.unlink(missing_ok=True)


class _WrongBytes(Exception):
    """The download does not match the lock file. It may have been truncated, so another attempt is
    worthwhile."""


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file against other processes. Waits without a timeout, because they may download
    for minutes and the kernel frees the lock of a dead process."""
    with path.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _missing(artifacts: Sequence[PinnedJar], directory: Path) -> list[PinnedJar]:
    def present(artifact: PinnedJar) -> bool:
        try:
            return (directory / artifact.file_name).stat().st_size == artifact.size
        except FileNotFoundError:
            return False

    return [artifact for artifact in artifacts if not present(artifact)]


def _ignore(_progress: Progress) -> None:
    return


def fetch_kafka(
    progress: Callable[[Progress], None] = _ignore, version: str = KAFKA_VERSION
) -> tuple[Path, ...]:
    """Return the jars of one Kafka version, and download missing ones.

    For `KAFKA_VERSION` they include the brokers, tools and Java peers; for other versions only the
    brokers. See `fetch_jars` for `progress` and errors.
    """
    artifacts = read_lock(lock_file(version).read_text())
    return fetch_jars(artifacts, f"kafka-{version}", progress)


def fetch_jars(
    artifacts: Sequence[PinnedJar],
    folder: str,
    progress: Callable[[Progress], None] = _ignore,
) -> tuple[Path, ...]:
    """Return the paths of these jars in a folder of the cache, and download missing ones.

    `progress` is called from several threads, one at a time, and only if something is missing.
    Raises `DownloadFailed`. Several processes may call it at once.
    """
    directory = cache_directory() / folder
    try:
        if _missing(artifacts, directory):
            directory.mkdir(parents=True, exist_ok=True)
            with _exclusive(directory / ".lock"):
                missing = _missing(artifacts, directory)
                done = sum(a.size for a in artifacts) - sum(a.size for a in missing)
                if missing:
                    _Download(missing, done, directory, progress).run()
    except OSError as error:
        raise DownloadFailed(f"Cannot write to the cache {directory}: {error.strerror}") from error
    return tuple(directory / artifact.file_name for artifact in artifacts)
