"""Signed requests between the workers of a group, most of them to its leader (KIP-507)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from urllib.parse import quote

from connect.clients.rest_client import RestClient
from connect.data import json_codec
from connect.errors import ConnectError, CorruptData, RetriableError
from connect.futures import failed_future
from connect.log_fields import OwnedPool
from connect.protocol.signatures import ALGORITHM_HEADER, SIGNATURE_HEADER, sign
from connect.runtime.errors import LeaderRefused
from connect.storage.config_records import SessionKey

__all__ = ["FINAL_HEADER", "InternalRequests", "partitions_path"]

FINAL_HEADER = "x-connect-final-error"
"""The leader sends it with an error that no retry can mend. Java's leader does not know it."""

NO_WAY_TO_LEADER = (
    "This worker is not able to communicate with the leader of the cluster, which is required for"
    " dynamically-reconfiguring connectors. If running MirrorMaker 2 in dedicated mode, consider"
    " enabling inter-worker communication via the 'dedicated.mode.enable.internal.rest' property."
)

NO_WAY_TO_WORKERS = (
    "the workers do not reach each other over REST; in dedicated mode, set"
    " dedicated.mode.enable.internal.rest=true on all of them"
)


class InternalRequests:
    """Sends signed requests to other workers.

    Requests to the leader run on the threads of a small pool; `get` runs on the caller's thread.
    The herder owns and closes it; `post_task_configs` and `get` may be called from any thread. With
    `client` None, workers do not send requests to each other. `path` is added to a worker's URL.
    """

    def __init__(
        self,
        client: RestClient | None,
        algorithm: str,
        key: Callable[[], SessionKey | None],
        path: str = "",
    ) -> None:
        self._client = client
        self._algorithm = algorithm
        self._key = key
        self._path = path
        self._pool = OwnedPool(max_workers=4, thread_name_prefix="leader-request")

    def post_task_configs(
        self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]]
    ) -> Future[None]:
        """Ask the leader to commit a connector's task configs."""
        body = json_codec.encode([dict(config) for config in configs])
        return self._submit("POST", leader_url, f"/connectors/{_segment(connector)}/tasks", body)

    def fence_zombies(self, leader_url: str, connector: str) -> Future[None]:
        """Ask the leader to fence a connector's earlier tasks (KIP-618)."""
        return self._submit("PUT", leader_url, f"/connectors/{_segment(connector)}/fence", None)

    def get(self, worker_url: str | None, path: str, timeout_s: float) -> bytes:
        """The answer of any worker. Signs the path, as there is no body. `worker_url` None: the
        worker has no REST listener. Raises `ConnectError`."""
        if self._client is None or worker_url is None:
            raise ConnectError(NO_WAY_TO_WORKERS)
        headers = self._signature(path.encode())
        url = f"{worker_url.rstrip('/')}{self._path}{path}"
        answer = self._client.request("GET", url, headers=headers, timeout_s=timeout_s)
        if answer.status != 200:
            raise LeaderRefused(
                f"GET {url}: the worker answered {answer.status}: {_message(answer.body)}",
                answer.status,
            )
        return answer.body

    def close(self) -> None:
        """Stop. Running requests end by their own timeouts, and their responses are ignored."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, method: str, leader_url: str, path: str, body: bytes | None) -> Future[None]:
        client = self._client
        if client is None:
            return failed_future(ConnectError(NO_WAY_TO_LEADER))
        if not leader_url:
            return failed_future(
                RetriableError(
                    "Request to leader failed because the URL of the leader's REST interface is"
                    " empty!"
                )
            )
        try:
            return self._pool.submit(self._ask, client, method, leader_url, path, body)
        except RuntimeError:
            return failed_future(ConnectError("Worker is shutting down"))

    def _ask(
        self, client: RestClient, method: str, leader_url: str, path: str, body: bytes | None
    ) -> None:
        headers = self._signature(body or b"")
        url = f"{leader_url.rstrip('/')}{self._path}{path}"
        answer = client.request(method, url, body=body, headers=headers)
        if answer.status >= 300:
            raise LeaderRefused(
                f"{method} {url}: the leader answered {answer.status}: {_message(answer.body)}",
                answer.status,
                final=FINAL_HEADER in answer.headers,
            )

    def _signature(self, signed: bytes) -> dict[str, str]:
        key = self._key()
        if key is None:
            return {}
        mac = sign(key.key, self._algorithm, signed)
        return {SIGNATURE_HEADER: mac, ALGORITHM_HEADER: self._algorithm}


def partitions_path(connector: str) -> str:
    """Return the path at which a worker serves the partitions of the connector's tasks that it
    runs."""
    return f"/connectors/{_segment(connector)}/partitions"


def _segment(name: str) -> str:
    return quote(name, safe="!$&'()*+,;=:@~")


def _message(body: bytes) -> str:
    try:
        content = json_codec.decode(body)
    except CorruptData:
        return body[:200].decode(errors="replace")
    if isinstance(content, dict) and isinstance(content.get("message"), str):
        return str(content["message"])
    return str(content)
