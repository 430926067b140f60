"""A registry of metrics: each part of the worker registers a function that reads its metrics.

Nothing is computed until a page is requested. `collect` runs on the caller's thread, so a `read`
function must be safe to call from any thread and must not block.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from connect.metrics.catalogue import (
    CONSUMER_FETCH_GROUP,
    CONSUMER_GROUP,
    MIRROR_CHECKPOINT_GROUP,
    MIRROR_FLOW_GROUP,
    MIRROR_SOURCE_GROUP,
)
from connect.metrics.histogram import HistogramValue

__all__ = [
    "REGISTRY_GROUP",
    "SELF_TOLD_GROUPS",
    "MetricRegistry",
    "MetricSample",
    "MetricValue",
    "OwnedMetrics",
    "Read",
    "ReadSamples",
]

_LOG = logging.getLogger(__name__)

MetricValue = float | str | HistogramValue
"""A number, text for states and names (`status`, `connector-class`), or a histogram."""

Read = Callable[[], Mapping[str, MetricValue]]

ReadSamples = Callable[[], "Iterable[MetricSample]"]

REGISTRY_GROUP = "metrics-registry"
"""The registry's own metrics group, with the attribute `failed-read-count`."""

SELF_TOLD_GROUPS = frozenset(
    {
        MIRROR_SOURCE_GROUP,
        MIRROR_CHECKPOINT_GROUP,
        MIRROR_FLOW_GROUP,
        CONSUMER_FETCH_GROUP,
        CONSUMER_GROUP,
    }
)
"""Groups whose tags already identify the flow, by both clusters or a client id."""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """The attributes of one MBean, with Java's names.

    `group` is the MBean's type (`connector-task-metrics`, `MirrorSourceConnector`), and `tags` are
    its other properties. Unknown attributes are absent.
    """

    group: str
    tags: Mapping[str, str]
    values: Mapping[str, MetricValue]


@dataclass(slots=True, eq=False)
class _Registration:
    name: str
    read: ReadSamples
    group: str | None = None
    """The only group that `read` returns; None: known only when it is read."""
    failing: bool = False


class MetricRegistry:
    """All metrics of a worker process. Safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registrations: dict[int, _Registration] = {}
        self._next = 0
        self._failed_reads = 0

    def register(self, group: str, tags: Mapping[str, str], read: Read) -> Callable[[], None]:
        """Register the metrics of one MBean. Return a function that removes them and may be called
        twice.

        Group and tags together must be unique at any time; of two equal ones, the page shows the
        later.
        """
        own = dict(tags)
        return self.register_samples(
            f"{group} {own}", lambda: [MetricSample(group, own, read())], group
        )

    def register_samples(
        self, name: str, read: ReadSamples, group: str | None = None
    ) -> Callable[[], None]:
        """Register metrics whose tags are known only when read. `name` is for the log. `group`: the
        only group that `read` returns; None: it may return any.
        """
        registration = _Registration(name, read, group)
        with self._lock:
            number = self._next
            self._next += 1
            self._registrations[number] = registration

        def remove() -> None:
            with self._lock:
                self._registrations.pop(number, None)

        return remove

    def scoped(self, tags: Mapping[str, str]) -> MetricRegistry:
        """Return a view of this registry that adds `tags` to everything registered through it.

        Two workers in one process thus do not replace each other's metrics. Groups in
        `SELF_TOLD_GROUPS` get no added tags, because their own identify the worker.
        """
        return _Scoped(self, tags)

    def owned(self) -> OwnedMetrics:
        """Return a view of this registry for one connector or task. Its owner closes it."""
        return OwnedMetrics(self)

    def collect(self, group: str | None = None) -> list[MetricSample]:
        """Read all metrics, or those of one group, in the order of registration.

        If a `read` function raises, its metrics are omitted, the first failure is logged, and each
        failure is counted.
        """
        with self._lock:
            registrations = [
                each
                for each in self._registrations.values()
                if group is None or each.group in (None, group)
            ]
        samples: list[MetricSample] = []
        for registration in registrations:
            try:
                found = list(registration.read())
            except Exception as error:  # noqa: BLE001 - plugin code; the others must still be shown
                self._failed(registration, error)
            else:
                registration.failing = False
                samples += found
        samples.append(
            MetricSample(REGISTRY_GROUP, {}, {"failed-read-count": float(self._failed_reads)})
        )
        return [each for each in samples if group is None or each.group == group]

    def _failed(self, registration: _Registration, error: Exception) -> None:
        with self._lock:
            self._failed_reads += 1
        if not registration.failing:
            registration.failing = True
            _LOG.warning(
                "Cannot read the metrics of %s, leaving them out: %s",
                registration.name,
                error,
                exc_info=error,
            )


class _Scoped(MetricRegistry):
    """The view that `MetricRegistry.scoped` returns."""

    def __init__(self, registry: MetricRegistry, tags: Mapping[str, str]) -> None:
        super().__init__()
        self._registry = registry
        self._tags = dict(tags)

    def register_samples(
        self, name: str, read: ReadSamples, group: str | None = None
    ) -> Callable[[], None]:
        return self._registry.register_samples(
            f"{name} {self._tags}", lambda: self._tagged(read()), group
        )

    def _tagged(self, samples: Iterable[MetricSample]) -> Iterable[MetricSample]:
        for sample in samples:
            if sample.group in SELF_TOLD_GROUPS:
                yield sample
            else:
                yield replace(sample, tags={**sample.tags, **self._tags})

    def collect(self, group: str | None = None) -> list[MetricSample]:
        return self._registry.collect(group)


class OwnedMetrics(MetricRegistry):
    """The view that `MetricRegistry.owned` returns. Thread-safe."""

    def __init__(self, registry: MetricRegistry) -> None:
        super().__init__()
        self._registry = registry
        self._removers: dict[int, Callable[[], None]] | None = {}

    def register_samples(
        self, name: str, read: ReadSamples, group: str | None = None
    ) -> Callable[[], None]:
        with self._lock:
            number = self._next
            self._next += 1
            if self._removers is None:
                return lambda: None
            self._removers[number] = self._registry.register_samples(name, read, group)

        def remove() -> None:
            with self._lock:
                kept = self._removers or {}
                remover = kept.pop(number, None)
            if remover is not None:
                remover()

        return remove

    def collect(self, group: str | None = None) -> list[MetricSample]:
        return self._registry.collect(group)

    def close(self) -> None:
        """Remove all that was registered through this view; nothing is registered any more. May be
        called again."""
        with self._lock:
            removers, self._removers = self._removers or {}, None
        for remove in removers.values():
            remove()
