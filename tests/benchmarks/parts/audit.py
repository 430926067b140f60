"""Prints how fast copies are audited, beside reading alone, and the memory it takes. Not a test.

Run: python -m tests.benchmarks.parts.audit [records] [batch bytes]
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from pathlib import Path

from connect.clients.cluster.partition_reader import PartitionReader
from connectors.mirror.audit.alignment import Rules
from connectors.mirror.audit.auditor import Auditor, AuditSetup, audit_ranges
from connectors.mirror.audit.plan import AuditRange
from connectors.mirror.copy.batches.choice import CopyOptions
from connectors.mirror.copy.range_copier import SourceRange, copy_ranges
from connectors.mirror.copy.settings import EngineSettings
from tests.benchmarks.arena import open_arena
from tests.benchmarks.filling import fill
from tests.benchmarks.payloads import make_payload
from tests.support.copier.copying import wire
from tests.support.records.topics import create_topic, end_offset

LZ4, ZSTD = 3, 4
LOGS = Path("build/bench-audit")


def read_alone(servers: str, topic: str, end: int) -> tuple[float, int]:
    """Seconds and bytes of reading a partition, and nothing else."""
    began = time.perf_counter()
    size = 0
    with Auditor.link({"bootstrap.servers": servers}, {topic}) as linked:
        linked.link.list_offsets([(topic, 0)], -2).result(30)
        reader = PartitionReader(linked.link, (topic, 0), 0, end)
        for fetched in reader:
            size += len(fetched.records)
        reader.close()
    return time.perf_counter() - began, size


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    batch_bytes = int(sys.argv[2]) if len(sys.argv) > 2 else 65_536
    with open_arena(LOGS) as arena:
        source, target = arena.source, arena.target
        topic, copy, anew = create_topic(source), create_topic(target), create_topic(target)
        filled = fill(source, topic, 1, make_payload("json", LZ4, batch_bytes), records, 600)
        end = end_offset(source, topic)
        assert end == filled
        for name, codec in ((copy, None), (anew, ZSTD)):
            copy_ranges(
                EngineSettings(wire(source), wire(target), options=CopyOptions(codec=codec)),
                [SourceRange((topic, 0), (name, 0), 0, end)],
                lambda _progress, _lines: None,
                stop=threading.Event(),
                stall_s=60.0,
            )
        setup = AuditSetup({"bootstrap.servers": source}, {"bootstrap.servers": target})
        for name, what in ((copy, "forwarded as bytes"), (anew, "compressed anew")):
            alone_s = size = 0.0
            for servers, each in ((source, topic), (target, name)):
                seconds, read = read_alone(servers, each, end)
                alone_s, size = alone_s + seconds, size + read
            wanted = AuditRange((topic, 0), (name, 0), 0, end, 0, end, Rules(end), 0, end)
            began, cpu = time.perf_counter(), time.process_time()
            (outcome,) = audit_ranges(setup, [wanted])
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            result = outcome.result
            assert result is not None, outcome.error
            assert (result.equal, result.different) == (end, 0)
            print(
                f"{what}: {end:,} records, {size / 1e6:,.0f} MB of both sides; read alone in "
                f"{alone_s:.2f} s ({size / alone_s / 1e6:,.0f} MB/s), audited in {took:.2f} s "
                f"({size / took / 1e6:,.0f} MB/s), {cpu:.2f} s of CPU, "
                f"{result.batches_at_a_glance:,} batches at a glance"
            )
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    main()
