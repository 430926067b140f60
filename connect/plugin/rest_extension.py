"""REST extensions (KIP-285): classes of `rest.extension.classes` that add resources and filters to
a worker's REST API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = [
    "ConnectClusterDetails",
    "ConnectClusterState",
    "ConnectRestExtension",
    "ConnectRestExtensionContext",
    "ConnectorHealth",
    "ConnectorState",
    "TaskState",
]


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """The state of a connector: RUNNING, FAILED, and so on. `trace`: of its failure."""

    state: str
    worker_id: str
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task. `trace`: of its failure."""

    task_id: int
    state: str
    worker_id: str
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorHealth:
    """A connector and its tasks, by number. `type` is source, sink or unknown."""

    name: str
    type: str
    connector_state: ConnectorState
    tasks_state: Mapping[int, TaskState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectClusterDetails:
    """The Kafka cluster of the worker group."""

    kafka_cluster_id: str


class ConnectClusterState(Protocol):
    """The connectors of the worker group, as this worker knows them. From any thread.

    Calls wait for the worker: a route that makes them is a plain function (`def`), which FastAPI
    runs on a thread, and not a coroutine. They raise `ConnectError`, for example `NotFound`, and
    while the worker starts. A route need not catch it: it becomes the answer that Connect's own
    resources would give.
    """

    def connectors(self) -> Sequence[str]:
        """Return the names of all connectors."""

    def connector_health(self, name: str) -> ConnectorHealth:
        """Return the states of a connector and its tasks."""

    def connector_config(self, name: str) -> Mapping[str, str]:
        """Return a connector's config as it was given, with placeholders for its secrets."""

    def task_configs(self, name: str) -> Mapping[int, Mapping[str, str]]:
        """Return the configs of a connector's tasks, by number."""

    def cluster_details(self) -> ConnectClusterDetails:
        """Return facts about the Kafka cluster."""


class ConnectRestExtensionContext(Protocol):
    """Registers the parts of an extension. For use in `register` only."""

    @property
    def cluster_state(self) -> ConnectClusterState:
        """The state of the worker group, to be kept and asked at any time."""

    def add_router(self, router: Any) -> None:
        """Serve the routes of a FastAPI `APIRouter` on the main listeners."""

    def add_middleware(self, make: Callable[[Any], Any]) -> None:
        """Let every request of the main listeners pass an ASGI application. `make` gets the next
        one and returns it. The first one added sees a request first, after the worker's own
        authentication."""


class ConnectRestExtension(ABC):
    """Adds to the REST API of a worker. Created without arguments; the worker calls `configure`,
    `register` and `close` once each, in the order of `rest.extension.classes`."""

    def configure(self, props: Mapping[str, str]) -> None:  # noqa: B027 - optional hook
        """Accept the worker's properties, with secrets. Raises `ConfigError`, and the worker does
        not start."""

    @abstractmethod
    def register(self, context: ConnectRestExtensionContext) -> None:
        """Add routers and middlewares. An exception ends the start of the worker."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release resources when the worker stops."""

    @classmethod
    def version(cls) -> str:
        """Return the version, or `undefined`."""
        return "undefined"
