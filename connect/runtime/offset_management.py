"""List, alter and reset the offsets of a connector (KIP-875), for both herders.

Source offsets are in the worker's offset store or the connector's own; sink offsets are in the
connector's consumer group. The connector's `alter_offsets` is called first and may reject a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from connect.clock import Deadline
from connect.data import json_codec
from connect.errors import ConnectError
from connect.plugin import AlteredOffset, Connector, OffsetValue, StoredOffset
from connect.runtime.errors import BadRequest
from connect.runtime.rest_entities import OffsetEntry
from connect.runtime.sink.group_offsets import SinkGroupOffsets, parse_sink_offsets
from connect.runtime.worker import Worker
from connect.storage.offset_admin import read_offsets, stored_partitions, write_offsets
from connect.storage.offset_store import OffsetStore

__all__ = ["ConnectorOffsets", "not_stopped"]

_CLOSE_S = 1.0


def not_stopped(name: str) -> BadRequest:
    """Return the error for changing the offsets of a connector that is not stopped."""
    return BadRequest(
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be"
        f" done for the specified connector by issuing a 'PUT' request to the '/connectors/{name}"
        "/stop' endpoint"
    )


class ConnectorOffsets:
    """Offsets of connectors in one worker's cluster. Thread-safe.

    The herder must make sure that a connector is stopped. Configs here are resolved.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._groups = SinkGroupOffsets(worker.clients)

    def read(self, name: str, config: Mapping[str, str], deadline: Deadline) -> list[OffsetEntry]:
        """Return all offsets. Raises `DeadlineExceeded`, and errors of the store or the cluster."""
        if self._connector(config).connector_type() == "sink":
            return self._groups.read(name, config, deadline)
        with self._opened(name, config, deadline) as store:
            found = read_offsets(store, name, deadline)
        return [OffsetEntry(partition, offset) for partition, offset in found]

    def alter(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Sequence[OffsetEntry],
        deadline: Deadline,
    ) -> str:
        """Set or delete some offsets. Return the message for the user.

        Raises `BadRequest` and the connector's errors before anything is changed.
        """
        if not offsets:
            raise BadRequest(
                "Partitions / offsets need to be provided for an alter offsets request"
            )
        connector = self._connector(config)
        if connector.connector_type() == "sink":
            changes = parse_sink_offsets(offsets)
            entries = [change.as_entry() for change in changes]
            told = _ask(connector.alter_offsets, name, config, entries)
            self._groups.change(name, config, changes, deadline)
            return _message("altered", told)
        altered = [(entry.partition, entry.offset) for entry in offsets]
        with self._opened(name, config, deadline) as store:
            told = _ask(connector.alter_offsets, name, config, altered)
            _write(store, name, altered, deadline)
        return _message("altered", told)

    def reset(self, name: str, config: Mapping[str, str], deadline: Deadline) -> str:
        """Delete all offsets. Return the message for the user. Raises as `alter`."""
        connector = self._connector(config)
        if connector.connector_type() == "sink":
            known = self._groups.read(name, config, deadline)
            entries: list[AlteredOffset] = [(entry.partition, None) for entry in known]
            told = _ask(connector.reset_offsets, name, config, entries)
            self._groups.reset(name, config, deadline)
            return _message("reset", told)
        with self._opened(name, config, deadline) as store:
            partitions = stored_partitions(store, name, deadline)
            resets: list[AlteredOffset] = [(partition, None) for partition in partitions]
            told = _ask(connector.reset_offsets, name, config, resets)
            _write(store, name, resets, deadline)
        return _message("reset", told)

    @contextmanager
    def _opened(
        self, name: str, config: Mapping[str, str], deadline: Deadline
    ) -> Iterator[OffsetStore]:
        """Open the store with the source connector's offsets for the duration of the block."""
        own = self._worker.own_store(name, config)
        if own is None:
            yield self._worker.offsets
            return
        try:
            own.start(deadline)
            yield own
        finally:
            own.stop(Deadline(_CLOSE_S, self._worker.clock))

    def _connector(self, config: Mapping[str, str]) -> type[Connector]:
        # Stored configs may be older than the permissions.
        connector = self._worker.plugins.connector(config["connector.class"])
        self._worker.permissions.check(connector, config)
        return connector


def _write(
    store: OffsetStore, name: str, offsets: Sequence[AlteredOffset], deadline: Deadline
) -> None:
    # A null partition has no key of its own; an existing one was written by another program.
    stored: list[StoredOffset] = [(p, offset) for p, offset in offsets if p is not None]
    write_offsets(store, name, stored, deadline)


def _ask(
    judge: Callable[[Mapping[str, str], Sequence[AlteredOffset]], bool],
    name: str,
    config: Mapping[str, str],
    offsets: Sequence[AlteredOffset],
) -> bool:
    """Return the connector's answer. All fields must have JSON types."""
    for partition, offset in offsets:
        for fields in (partition, offset):
            if fields is not None:
                _check_primitive(fields)
    try:
        return judge(config, offsets)
    except ConnectError:
        raise
    except Exception as error:
        raise ConnectError(f"Connector {name} failed in alter_offsets: {error}") from error


def _check_primitive(fields: Mapping[str, OffsetValue]) -> None:
    for field, value in fields.items():
        if value is not None and not isinstance(value, str | int | float | bool):
            shown = json_codec.encode(dict(fields)).decode()
            raise BadRequest(
                f"Field {field} of {shown} is not a string, number or boolean; use only these"
                f" types in partitions and offsets"
            )


def _message(done: str, told: bool) -> str:
    if told:
        return f"The offsets for this connector have been {done} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {done} successfully."
        f" However, if this connector manages offsets externally, they will need to be manually"
        f" {done} in the system that the connector uses."
    )
