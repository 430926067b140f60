"""Measures one copy: a mirror is launched on a full source topic and watched until all is there."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import psutil

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import DeadlineExceeded
from tests.benchmarks.arena import Arena, Mirror
from tests.benchmarks.contents import Digest, digest
from tests.benchmarks.flows import Flow
from tests.benchmarks.results import CopyResult
from tests.benchmarks.systems import JAVA, System
from tests.benchmarks.watching import EndOffsets, Usage

__all__ = ["measure_copy"]

_SAMPLE_S = 0.05
_MANY_PARTITIONS = 100
_MANY_SAMPLE_S = 0.4
"""Asking for the end offsets of 1,000 partitions costs 20 ms of CPU; and a broker takes many
seconds to create so many, which would be all that is measured: there they exist before."""

_START_S = 60.0
_SLOWEST_RATE = 4_000
_STEADY = (0.1, 0.9)


class _Sample(NamedTuple):
    at: float
    records: float
    mirror_cpu_s: float
    broker_cpu_s: float
    all_cpu_s: float


def measure_copy(
    arena: Arena,
    flow: Flow,
    topic: str,
    records: int,
    value_bytes: float,
    system: System,
    turn: int,
    contents: Digest | None = None,
) -> CopyResult:
    """Copy `topic`, which holds `records` records, into a topic of this run's own. `contents`: of
    `topic`, which the copy must have, with timestamps if the system keeps them; None: only its
    records are counted.

    Raises `RuntimeError` if the contents differ.
    """
    # Java leaves it to the target's broker to create a renamed topic.
    before = flow.partitions >= _MANY_PARTITIONS or flow.transforms
    transforms = dict(flow.transforms)
    if system.name.startswith(JAVA):
        transforms |= flow.java_transforms
    with arena.mirror(
        system,
        topic,
        flow.codec,
        {topic: flow.partitions} if before else None,
        plain=flow.plain,
        transforms=transforms,
        properties=flow.properties,
    ) as mirror:
        samples, rss = _watch(arena, mirror, topic, flow.partitions, records)
        stopping = SYSTEM_CLOCK.monotonic()
        mirror.process.stop()
        stop_s = SYSTEM_CLOCK.monotonic() - stopping
        extra = round(samples[-1].records) - records
        verified = contents is not None and not extra
        if verified and contents != digest(
            arena.target,
            mirror.remote(topic),
            flow.partitions,
            records,
            headers=not flow.transforms,
            times=system.keeps_times,
        ):
            raise RuntimeError(f"{system.name} changed records of {flow.name}")
    first = next(sample for sample in samples if sample.records)
    low, high = (_at(samples, records * share) for share in _STEADY)
    seconds = high.at - low.at
    copied = high.records - low.records
    mirror_cpu, broker_cpu, all_cpu = (
        high.mirror_cpu_s - low.mirror_cpu_s,
        high.broker_cpu_s - low.broker_cpu_s,
        high.all_cpu_s - low.all_cpu_s,
    )
    return CopyResult(
        flow=flow.name,
        system=system.name,
        round=turn,
        records=records,
        value_bytes=value_bytes,
        steady_rate=copied / seconds,
        cpu_us_per_record=mirror_cpu / copied * 1e6,
        mirror_cores=mirror_cpu / seconds,
        broker_cores=broker_cpu / seconds,
        other_cores=max(0.0, all_cpu - mirror_cpu - broker_cpu) / seconds,
        rss_mib=rss,
        first_record_s=first.at - mirror.launched,
        copy_s=samples[-1].at - first.at,
        cpu_s=samples[-1].mirror_cpu_s - samples[0].mirror_cpu_s,
        stop_s=stop_s,
        extra_records=extra,
        verified=verified,
    )


def _watch(
    arena: Arena, mirror: Mirror, topic: str, partitions: int, records: int
) -> tuple[list[_Sample], float]:
    """Samples from the launch until everything is copied, and the most memory seen."""
    pause = _SAMPLE_S if partitions < _MANY_PARTITIONS else _MANY_SAMPLE_S
    deadline = Deadline(_START_S + records / _SLOWEST_RATE)
    samples: list[_Sample] = []
    use = Usage(0.0, 0.0)
    rss = 0.0
    waiting = threading.Event()
    with EndOffsets(arena.target, mirror.remote(topic), partitions) as ends:
        while not samples or samples[-1].records < records:
            if deadline.expired():
                done = samples[-1].records
                raise DeadlineExceeded(
                    f"{done:.0f} of {records} records were copied in time; see {mirror.process.log}"
                )
            ended = mirror.check()
            with suppress(psutil.NoSuchProcess):
                use = use if ended else mirror.use.now()
            rss = max(rss, use.rss_mib)
            times = psutil.cpu_times()
            busy = times.user + times.system + times.nice + times.irq + times.softirq
            samples.append(
                _Sample(
                    SYSTEM_CLOCK.monotonic(), ends.total(), use.cpu_s, arena.broker_cpu_s(), busy
                )
            )
            if ended and samples[-1].records < records:
                raise RuntimeError(f"The copy ended before all was there; see {mirror.process.log}")
            waiting.wait(pause)
    return samples, rss


def _at(samples: Sequence[_Sample], records: float) -> _Sample:
    """The moment at which so many records were copied, between the samples around it."""
    for before, after in pairwise(samples):
        if before.records <= records <= after.records and after.records > before.records:
            share = (records - before.records) / (after.records - before.records)
            return _Sample(*(a + (b - a) * share for a, b in zip(before, after, strict=True)))
    raise RuntimeError("The whole copy came between two samples: ask for more --records")
