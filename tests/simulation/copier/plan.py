"""What a seed chooses: the copier's configuration, the clusters, and which faults occur."""

from __future__ import annotations

import random
from dataclasses import dataclass

from connect.protocol.compression import GZIP, LZ4, NONE, SNAPPY
from connectors.mirror.config.losses import LossKind, LossPolicies, LossPolicy
from connectors.mirror.copy.batches.choice import CopyOptions
from tests.simulation.copier.outage import EXACTLY_ONCE_OUTAGES, LASTS_S, OUTAGES
from tests.simulation.kafka.access import AccessFaults
from tests.simulation.kafka.broker import BrokerFaults
from tests.simulation.kafka.coordinator import CoordinatorFaults
from tests.simulation.kafka.network import NetworkOptions

__all__ = ["OldFormat", "Plan", "SideFaults", "plan_for"]

_TROUBLES = (
    "source leader", "source cut", "source silent", "source broker", "retention", "compaction",
    "source unclean", "source recreated",
    "target leader", "target cut", "target silent", "target broker", "target broken send",
    "few replicas", "slow replicas", "target leaderless", "small messages", "forgotten producers",
    "target unclean", "target recreated", "bad records",
    "crash", "crash", "restart", "freeze", "pause", "limit", "reassign", "clock",
)  # fmt: skip
_NOT_IN_OUTAGES = frozenset({
    "crash", "restart", "freeze", "pause", "limit", "reassign", "source recreated",
    "target recreated", "source old broker", "target old broker",
})  # fmt: skip
"""They would end what an outage is to show: that a copier that runs on tells of it."""

_NOT_EXACTLY_ONCE = frozenset({"forgotten producers"})
"""Brokers do not forget a producer whose transaction is open."""


@dataclass(slots=True)
class SideFaults:
    """Of one cluster."""

    requests: BrokerFaults
    network: NetworkOptions
    access: AccessFaults


@dataclass(slots=True)
class OldFormat:
    """Messages from before Kafka 0.11: magic 0 or 1, `codec` 0 or that of wrapped sets, for so many
    batches of each partition."""

    magic: int
    codec: int
    batches: int


@dataclass(slots=True)
class Plan:
    """See the module. Times in virtual seconds, sizes in bytes."""

    seed: int
    exactly_once: bool
    read_committed: bool
    partitions: int
    source_brokers: int
    target_brokers: int
    troubles: tuple[str, ...]
    trouble_every_s: float
    trouble_for_s: float
    batches: int
    """About so many batches are written to each partition."""
    largest_batch: int
    source: SideFaults
    target: SideFaults
    coordinator: CoordinatorFaults
    buffer_bytes: int
    partition_fetch_bytes: int
    fetch_wait_ms: int
    max_request_size: int
    request_timeout_ms: int
    metadata_max_age_ms: int
    options: CopyOptions
    losses: LossPolicies
    quarantine: bool
    transactions: float
    """The share of source batches in transactions."""
    codec: int
    log_append_time: bool
    store_every_s: float
    boundary_s: float | None
    stored_at_first: bool
    names_old_duplicates: bool
    learns: bool
    keeps_facts: bool
    """Whether what is known of the logs is stored with the offsets: not without the offset map."""
    late_answer: bool
    """The source's first records arrive late, and its topic is re-created meanwhile."""
    old_format: OldFormat | None
    """What the source's first batches are of; None: of magic 2."""
    grows_by: int = 0
    """So many partitions are added to the source's topic while it is copied."""
    outage: str | None = None
    """A long trouble (`outage.py`)."""
    watches_few: bool = False
    """Partitions at rest are not looked at every second, as where there are many."""

    def __str__(self) -> str:
        how = "exactly once" if self.exactly_once else "at least once"
        committed = "committed" if self.read_committed else "uncommitted"
        return (
            f"{how}, reads {committed}, {self.partitions} partitions, "
            f"{self.source_brokers}+{self.target_brokers} brokers, buffer {self.buffer_bytes}, "
            f"fetch {self.partition_fetch_bytes}, troubles: {', '.join(self.troubles) or 'none'}"
            f"{'' if self.old_format is None else f', {self.old_format}'}"
            f"{', some losses stop' if self.stops else ''}"
            f"{f', {self.grows_by} partitions more' if self.grows_by else ''}"
            f"{f', outage: {self.outage}' if self.outage else ''}"
        )

    @property
    def stops(self) -> bool:
        """Whether a partition stops after losses of some kind."""
        return LossPolicy.FAIL in self.losses.kinds.values()


def _some(rng: random.Random, chance: float, most: float) -> float:
    return most * rng.random() if rng.random() < chance else 0.0


def _side(rng: random.Random) -> SideFaults:
    return SideFaults(
        BrokerFaults(
            refuse=_some(rng, 0.4, 0.3),
            late=_some(rng, 0.4, 0.2),
            fetch_error=_some(rng, 0.3, 0.1),
            corrupt=_some(rng, 0.2, 0.05),
            throttle=_some(rng, 0.2, 0.2),
            evict_session=_some(rng, 0.2, 0.2),
            no_sessions=rng.random() < 0.1,
        ),
        NetworkOptions(
            delay=rng.choice((0.0002, 0.002, 0.02)),
            spike=_some(rng, 0.4, 0.1),
            spike_s=rng.choice((0.05, 0.5, 6.0)),
            cut=_some(rng, 0.4, 0.5),
            small_window=_some(rng, 0.3, 1.0),
        ),
        AccessFaults(
            stale=_some(rng, 0.3, 0.7),
            unavailable=_some(rng, 0.2, 0.3),
            connect=_some(rng, 0.2, 0.4),
            question=_some(rng, 0.2, 0.4),
            without_topic=_some(rng, 0.2, 0.3),
            without_leader=_some(rng, 0.2, 0.3),
        ),
    )


def _old_format(rng: random.Random) -> OldFormat:
    codec = rng.choice((NONE, GZIP, SNAPPY, LZ4))
    return OldFormat(rng.choice((0, 1)), codec, rng.choice((5, 20, 1_000)))


def _stops(rng: random.Random) -> dict[LossKind, LossPolicy]:
    """The kinds of losses after which a partition stops."""
    return {kind: LossPolicy.FAIL for kind in LossKind if rng.random() < 0.6}


def plan_for(seed: int) -> Plan:
    """The same seed gives the same plan."""
    rng = random.Random(seed)
    exactly_once = rng.random() < 0.45
    share = rng.choice((0.15, 0.3, 0.5))
    troubles = [name for name in dict.fromkeys(_TROUBLES) if rng.random() < share]
    if exactly_once:
        troubles = [name for name in troubles if name not in _NOT_EXACTLY_ONCE]
    # Chosen apart, so that a seed's other choices stay what they were before there was this.
    apart = random.Random(seed * 31 + 7)
    for side in ("source", "target"):
        if f"{side} recreated" in troubles and apart.random() < 0.4:
            troubles.append(f"{side} old broker")
    hard_to_know = {"source recreated", "source unclean"}.intersection(troubles)
    # So are these.
    later = random.Random(seed * 37 + 11)
    old_format = _old_format(later) if later.random() < 0.1 else None
    if old_format is not None and "source unclean" in troubles:
        troubles.remove("source unclean")  # such messages have no leader epoch to compare
    stops = _stops(later) if later.random() < 0.2 else {}
    if later.random() < (0.25 if exactly_once else 0.1):
        troubles.append("refused again")
    # And this.
    if exactly_once and random.Random(seed * 41 + 13).random() < 0.1:
        troubles.append("refused late")
    late_answer = "source recreated" in troubles and later.random() < 0.3
    keeps_facts = exactly_once or bool(hard_to_know) or apart.random() < 0.6
    quarantine = rng.random() < 0.3
    if not quarantine and "bad records" in troubles:
        troubles.remove("bad records")
    transactions = rng.choice((0.0, 0.0, 0.3, 0.8))
    codec = rng.choice((None, None, None, 0, 4))
    coordinator = CoordinatorFaults(
        slow=_some(rng, 0.3, 0.2),
        slow_s=rng.choice((0.5, 5.0)),
        spoilt=_some(rng, 0.3, 0.2),
        unknown_partition=_some(rng, 0.2, 0.1),
        refused=_some(rng, 0.3, 0.3),
        lost=_some(rng, 0.3, 0.2),
    )
    read_committed = rng.random() < 0.5
    plan = Plan(
        seed=seed,
        exactly_once=exactly_once,
        read_committed=read_committed,
        partitions=rng.choice((1, 2, 3, 4)),
        source_brokers=rng.choice((1, 2, 2, 3)),
        target_brokers=rng.choice((2, 2, 2, 3)),
        troubles=tuple(troubles),
        trouble_every_s=rng.choice((0.05, 0.2, 0.6)),
        trouble_for_s=rng.choice((2.0, 4.0, 8.0)),
        batches=rng.choice((15, 30, 60)),
        largest_batch=rng.choice((1, 5, 20)),
        source=_side(rng),
        target=_side(rng),
        coordinator=coordinator,
        buffer_bytes=rng.choice((6_000, 20_000, 200_000, 4_000_000)),
        partition_fetch_bytes=rng.choice((500, 1_500, 8_000, 1_000_000)),
        fetch_wait_ms=rng.choice((20, 500)),
        max_request_size=rng.choice((600, 3_000, 1_000_000)),
        request_timeout_ms=rng.choice((1_500, 5_000)),
        metadata_max_age_ms=rng.choice((1_000, 5_000, 20_000)),
        options=CopyOptions(read_committed, codec, merge_bytes=rng.choice((300, 262_144))),
        losses=LossPolicies(
            rng.choice((LossPolicy.REPORT, LossPolicy.REPORT, LossPolicy.COPY)), stops
        ),
        quarantine=quarantine,
        transactions=transactions,
        codec=rng.choice((0, 0, 3, 4)),
        log_append_time=rng.random() < 0.1,
        store_every_s=rng.choice((0.1, 0.5, 2.0)),
        boundary_s=rng.choice((None, None, None, 0.5)),
        stored_at_first=rng.random() < 0.5,
        names_old_duplicates=rng.random() < 0.2,
        learns=rng.random() < 0.8,
        keeps_facts=keeps_facts,
        late_answer=late_answer,
        old_format=old_format,
    )
    if late_answer:
        plan.metadata_max_age_ms = 1_000
    _choose_more(plan, random.Random(seed * 43 + 17))
    return plan


def _choose_more(plan: Plan, rng: random.Random) -> None:
    """Chosen apart, too."""
    plan.watches_few = rng.random() < 0.5
    if rng.random() < 0.15:
        plan.grows_by = rng.choice((1, 2))
        plan.troubles += ("source grows",)
    if rng.random() < 0.08 and not plan.late_answer:
        own = plan.exactly_once and rng.random() < 0.5
        plan.outage = rng.choice(EXACTLY_ONCE_OUTAGES if own else OUTAGES)
        plan.troubles = tuple(t for t in plan.troubles if t not in _NOT_IN_OUTAGES)
        plan.trouble_for_s = LASTS_S + 4.0
        plan.trouble_every_s = 2.0
