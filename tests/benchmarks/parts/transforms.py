"""Prints what transformed records cost from fetched bytes to batches for the target. Not a test.

Run: python -m tests.benchmarks.parts.transforms [batches] [flow,flow...]
"""

from __future__ import annotations

import sys
from functools import partial

from connect.data.record import SourceRecord
from connect.protocol.batches import read_headers
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import ErrorHandling, RecordErrors
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.tasks.record_converters import NamedConverters
from connect.runtime.transfer.record_transforms import make_record_transforms
from connectors.mirror.copy.batches.choice import CopyOptions
from connectors.mirror.copy.batches.conversion import Chosen, FetchedRecords
from connectors.mirror.copy.batches.transformed import ChangeRecord, transformed_batches
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from tests.benchmarks.flows import FLOWS, Flow
from tests.benchmarks.parts.records import report
from tests.benchmarks.payloads import Payload, make_payload

_OPTIONS = CopyOptions()
_NAMES = ("transforms", "fields", "mask")


def _change(flow: Flow) -> ChangeRecord:
    """Return the transformations of a flow as a worker's task runs them."""
    plugins = PluginRegistry()
    errors = RecordErrors[SourceRecord](
        ErrorHandling(), ErrorMetrics(), lambda record: record.topic
    )
    converters = NamedConverters(plugins)
    made = make_record_transforms(
        plugins, converters, flow.transforms, "mirror.transforms.", errors
    )
    _, transform = made.of_topic("t", "A.t")
    assert transform is not None
    return partial(transform.apply, 0)


def _copied(payload: Payload, batches: int, change: ChangeRecord) -> Chosen:
    data = bytearray()
    for number in range(batches):
        batch = payload.batches[number % len(payload.batches)]
        base = number * payload.batch_records
        data += base.to_bytes(8, "big") + batch[8:]
    budget = MemoryBudget(1 << 30)
    view = memoryview(data)
    buffer = FetchBuffer(budget, data)
    headers = read_headers(view)
    return transformed_batches(
        FetchedRecords(view, headers, 0, None, 1 << 20, (), _OPTIONS, buffer, budget), change
    )


def main(batches: int, names: list[str]) -> None:
    for flow in map(FLOWS.__getitem__, names):
        payload = make_payload(flow.kind, flow.codec_number, flow.batch_bytes)
        run = partial(_copied, payload, batches, _change(flow))
        assert run().unreadable is None
        report(flow.words, batches * payload.batch_records, run)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 20,
        sys.argv[2].split(",") if len(sys.argv) > 2 else list(_NAMES),
    )
