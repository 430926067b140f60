"""The copy engine on its own, between two real clusters, on a thread of the test."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from connect.clients.config.settings import FetchSettings, ProduceSettings, WireSettings
from connect.clock import Deadline
from connectors.mirror.config.losses import Loss, LossPolicies
from connectors.mirror.copy.batches.choice import CopyOptions
from connectors.mirror.copy.context import CopyListener
from connectors.mirror.copy.engine import CopyEngine
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.quarantine import Quarantine, QuarantinedRecords
from connectors.mirror.copy.settings import EngineSettings
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from tests.support.waiting import wait_until

__all__ = ["CopyRun", "wire"]


def wire(servers: str, timeout_ms: int = 5_000) -> WireSettings:
    """Plain connections to these `host:port,...` servers."""
    addresses = (address.rsplit(":", 1) for address in servers.split(","))
    return WireSettings(
        bootstrap=tuple((host, int(port)) for host, port in addresses),
        client_id="copy-test",
        receive_buffer_bytes=-1,
        send_buffer_bytes=-1,
        request_timeout_ms=timeout_ms,
        reconnect_backoff_max_ms=200,
        retry_backoff_max_ms=200,
    )


class CopyRun:
    """Copies partitions while it is open. `mapping` holds what was acknowledged:
    (topic, partition) -> {source offset: target offset}, a later copy replacing an earlier one."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        fetch: FetchSettings | None = None,
        produce: ProduceSettings | None = None,
        options: CopyOptions | None = None,
        buffer_bytes: int = 64 * 1024 * 1024,
        far_buffer_bytes: int | None = None,
        timeout_ms: int = 5_000,
        losses: LossPolicies | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.mapping: dict[tuple[str, int], dict[int, int]] = {}
        self.order: dict[tuple[str, int], list[int]] = {}
        self.metrics: dict[tuple[str, int], PartitionMetrics] = {}
        self.quarantined: list[QuarantinedRecords] = []
        self.losses: list[Loss] = []
        self.most_memory = 0
        self._commands: deque[bool] = deque()
        self._engine = CopyEngine(
            EngineSettings(
                source=wire(source, timeout_ms),
                target=wire(target, timeout_ms),
                fetch=fetch or FetchSettings(),
                produce=produce or ProduceSettings(request_timeout_ms=timeout_ms),
                options=options or CopyOptions(),
                buffer_bytes=buffer_bytes,
                far_buffer_bytes=far_buffer_bytes,
                losses=losses or LossPolicies(),
            ),
            CopyListener(
                acked=self._acked,
                lost=lambda _, loss: self.losses.append(loss),
                quarantined=lambda _, aside: self.quarantined.append(aside),
            ),
            quarantine=quarantine,
        )
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="copy-run")

    def _acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base: int) -> None:
        mapping = self.mapping.setdefault(partition.source, {})
        order = self.order.setdefault(partition.source, [])
        assert base >= 0, f"{partition.source}: acknowledged at an unknown offset"
        for first, count in runs:
            for n in range(count):
                mapping[first + n] = base + n
                order.append(first + n)
            base += count

    def add(self, topic: str, target: str, partition: int = 0, position: int | None = 0) -> None:
        """Copy a partition from `position` on. Before `with`."""
        metrics = PartitionMetrics("source", "target", target, partition)
        self.metrics[topic, partition] = metrics
        self._engine.add((topic, partition), (target, partition), position, metrics)

    def _run(self) -> None:
        try:
            self._engine.watch()
            while not self._stop.is_set():
                self._engine.step(0.2)
                while self._commands:
                    self._engine.set_fetching(self._commands[0])
                    self._commands.popleft()
                self.most_memory = max(self.most_memory, self._engine._context.budget.used)
            self._engine.drain(Deadline(5.0))
        except BaseException as error:  # noqa: BLE001 - raised again by the test's thread
            self._failure = error
        finally:
            self._engine.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._engine.wake()
        self._thread.join(30.0)
        assert not self._thread.is_alive()
        if self._failure is not None and error is None:
            raise self._failure

    def lost_records(self, topic: str, partition: int = 0) -> int:
        """How many source offsets were reported as deleted before they were copied."""
        found = [p for p in tuple(self._engine.partitions) if p.source == (topic, partition)]
        return found[0].lost_records

    def fetching(self, *, on: bool) -> None:
        """Pause or resume, on the engine's thread."""
        self._commands.append(on)
        self._engine.wake()
        wait_until(lambda: not self._commands, 10.0, "the engine paused or resumed")

    def positions(self) -> dict[tuple[str, int], int]:
        """The next source offset after what was acknowledged."""
        return {p.source: p.acked_position for p in tuple(self._engine.partitions)}

    def error(self, topic: str, partition: int = 0) -> str | None:
        """Why a partition does not move."""
        name = f"{topic}-{partition}"
        return next((h.error for h in self._engine.health() if h.name == name), None)

    def wait(self, ends: dict[tuple[str, int], int], timeout_s: float = 60.0) -> None:
        """Until every partition is copied up to these source offsets."""

        def copied() -> bool:
            assert self._failure is None, self._failure
            positions = self.positions()
            return all(positions.get(key, -1) >= end for key, end in ends.items())

        wait_until(copied, timeout_s, f"copied up to {ends}; now {self.positions()}")
