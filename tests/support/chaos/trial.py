"""One trial: a schedule carried out while producers write and groups commit, and the proof after.

    trial(seed, seconds, ...)   everything: clusters, workers, writers, faults, check

A trial ends when all is copied and stored, and its workers stopped cleanly; then the logs are read.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from deploy.brokers import KafkaRuntime
from tests.support.chaos.arena import Arena, arena
from tests.support.chaos.checker import (
    Case,
    Finding,
    Manner,
    Tally,
    check_checkpoints,
    check_copy,
    check_map,
)
from tests.support.chaos.injecting import Injector, Subject
from tests.support.chaos.journal import Fate, Journal
from tests.support.chaos.logs import (
    Checkpoint,
    Page,
    committed,
    parse_checkpoint,
    parse_page,
    read,
    targets,
)
from tests.support.chaos.schedule import plan, show
from tests.support.chaos.writing import Writer, idempotent, plain, transactional
from tests.support.topics import end_offsets, topic_names, unique
from tests.support.waiting import wait_until

__all__ = ["Outcome", "Rules", "trial"]

_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "2000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "3000",
}
_LOST = re.compile(r" (\S+)-(\d+): the source no longer has offsets (\d+) to (\d+)")
_CATCH_UP_S = 150.0
_COMMIT_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Rules:
    """How a trial is run."""

    seed: int
    seconds: float
    nodes: int = 3
    workers: int = 2
    exactly_once: bool = False


@dataclass
class Outcome:
    """What was done, and what was found."""

    rules: Rules
    schedule: str
    done: Counter[str] = field(default_factory=Counter)
    fates: dict[str, int] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    tallies: dict[str, Tally] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    @property
    def most_jumps(self) -> int:
        """How often copies may go back: each partition once for each fault of workers and of the
        target, and twice where two workers are concerned."""
        faults = sum(
            n for kind, n in self.done.items() if not kind.startswith(("source", "topics"))
        )
        return 0 if self.rules.exactly_once else 2 * len(self.tallies) * (faults + 1)

    def line(self) -> str:
        """As JSON, for a file with a line for each trial."""
        facts = {
            "seed": self.rules.seed,
            "seconds": self.rules.seconds,
            "nodes": self.rules.nodes,
            "exactly_once": self.rules.exactly_once,
            "actions": dict(sorted(self.done.items())),
            "records": self.fates,
            "copied": self.tally.copied,
            "repeated": self.tally.repeated,
            "jumps": self.tally.jumps,
            "reported_lost": self.tally.reported_lost,
            "written_again": self.tally.written_again,
            "findings": [str(finding) for finding in self.findings],
        }
        return json.dumps(facts)


class _Committer:
    """A group that commits ever higher offsets on the source, as far as records were written."""

    def __init__(self, servers: str, group: str, partitions: Sequence[tuple[str, int]]) -> None:
        self.group = group
        self.last: dict[tuple[str, int], int] = {}
        self._servers = servers
        self._partitions = partitions
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"committer-{group}")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_COMMIT_EVERY_S):
            self.commits()

    def commits(self, back: int = 0) -> bool:
        """Whether it could: brokers may be away, or just back."""
        try:
            self.commit(back)
        except KafkaException:
            return False
        return True

    def commit(self, back: int = 0) -> None:
        """Everything that is there, but for `back` records before the end."""
        offsets = []
        for topic, number in self._partitions:
            where = TopicPartition(topic, number)
            _, end = self._consumer.get_watermark_offsets(where, timeout=5.0)
            at = max(self.last.get((topic, number), 0), end - back)
            offsets.append(TopicPartition(topic, number, at))
        self._consumer.commit(offsets=offsets, asynchronous=False)
        self.last = {(each.topic, each.partition): each.offset for each in offsets}

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60.0)

    def close(self) -> None:
        self.stop()
        self._consumer.close()


@dataclass
class _Trial:
    """The topics of a trial, and what goes on in them."""

    rules: Rules
    arena: Arena
    journal: Journal = field(default_factory=Journal)
    manners: dict[str, Manner] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)

    def make(self, name: str, count: int, manner: Manner = Manner.WHOLE) -> str:
        copies = min(self.rules.nodes, 3)
        configs = _COMPACTED if manner is Manner.COMPACTED else {}
        flow = self.arena.flow
        topic = flow.topic(name, partitions=count, replication=copies, configs=configs)
        self.manners[topic], self.partitions[topic] = manner, count
        return topic

    def of(self, *topics: str) -> list[tuple[str, int]]:
        return [(topic, n) for topic in topics for n in range(self.partitions[topic])]

    def properties(self) -> dict[str, str]:
        copies = str(min(self.rules.nodes, 3))
        topics = ("checkpoints", "heartbeats", "offset-syncs")
        return self.arena.flow.properties(
            {
                "replication.factor": copies,
                **{f"{name}.topic.replication.factor": copies for name in topics},
                **{
                    f"{name}.storage.replication.factor": copies
                    for name in ("offset", "status", "config")
                },
                "tasks.max": "2",
                "A.consumer.isolation.level": "read_committed",
                # The copy of a compacted topic is not compacted: it shows what was copied.
                "config.properties.exclude": ".*",
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "1",
                "B.scheduled.rebalance.max.delay.ms": "3000",
                "B.offset.flush.interval.ms": "700",
                **({"B.exactly.once.source.support": "enabled"} if self.rules.exactly_once else {}),
            }
        )

    def ends(self) -> dict[tuple[str, int], int]:
        servers = self.arena.flow.source_servers
        return {
            (topic, number): end
            for topic in self.partitions
            for number, end in end_offsets(servers, topic).items()
        }

    def lost(self) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """What the workers reported as deleted before it was copied."""
        found: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for worker in self.arena.workers:
            for match in _LOST.finditer(worker.log.read_text(errors="replace")):
                span = (int(match[3]), int(match[4]))
                found.setdefault((match[1], int(match[2])), []).append(span)
        return found

    def cases(self) -> Iterator[tuple[str, int, Case]]:
        flow, lost = self.arena.flow, self.lost()
        for topic, number in self.of(*self.partitions):
            source = read(flow.source_servers, topic, number)
            start = self._start(topic, number)
            case = Case(
                f"{topic}-{number}",
                self.manners[topic],
                source,
                read(flow.target_servers, flow.remote(topic), number),
                self.journal.of(topic, number),
                lost.get((topic, number), ()),
                start,
                self.rules.exactly_once,
            )
            yield topic, number, case

    def _start(self, topic: str, number: int) -> int:
        consumer = Consumer(
            {"bootstrap.servers": self.arena.flow.source_servers, "group.id": unique("start")}
        )
        try:
            where = TopicPartition(topic, number)
            start: int = consumer.get_watermark_offsets(where, timeout=30.0)[0]
            return start
        finally:
            consumer.close()

    def pages(self) -> list[Page]:
        flow = self.arena.flow
        newest = {r.key: r.value for r in read(flow.source_servers, flow.map_topic) if r.key}
        return [
            parse_page(key, value)
            for key, value in newest.items()
            # Other records of the topic (docs/offset-map.md).
            if value is not None and not key.startswith(b"\xff\xff")
        ]

    def check(self, outcome: Outcome, committer: _Committer) -> None:
        flow = self.arena.flow
        pages = self.pages()
        raw = read(flow.target_servers, f"{flow.a}.checkpoints.internal")
        points = [parse_checkpoint(r.key or b"", r.value or b"") for r in raw if r.value]
        copies = [(flow.remote(topic), number) for topic, number in committer.last]
        on_target = committed(flow.target_servers, committer.group, copies)
        for topic, number, case in self.cases():
            findings, tally = check_copy(case)
            outcome.tally.add(tally)
            outcome.tallies[case.name] = tally
            own = [page for page in pages if (page.topic, page.partition) == (topic, number)]
            findings += check_map(case, own)
            if (topic, number) in committer.last:
                remote = (flow.remote(topic), number)
                mine = [
                    p
                    for p in points
                    if (p.group, p.topic, p.partition) == (committer.group, *remote)
                ]
                findings += check_checkpoints(case, mine, committer.last[topic, number])
                if mine and on_target.get(remote) != mine[-1].downstream:
                    text = f"the group is at {on_target.get(remote)} on the target, not {mine[-1]}"
                    findings.append(Finding("checkpoint", case.name, text))
            outcome.findings += findings


@contextmanager
def _writing(trial: _Trial, seed: int) -> Iterator[tuple[Subject, tuple[str, ...]]]:
    """Four writers, and what may be done to their topics; the topics that groups read."""
    servers = trial.arena.flow.source_servers
    whole = tuple(trial.make(name, 2) for name in ("plain", "idempotent", "transactional"))
    compacted = trial.make("compacted", 1, Manner.COMPACTED)
    trimmed = trial.make("trimmed", 2, Manner.TRIMMED)
    again = trial.make("again", 1, Manner.CREATED_AGAIN)
    journal, of = trial.journal, trial.of
    with ExitStack() as stack:

        def write(
            settings: dict[str, str | int | float | bool], *topics: str, burst: int
        ) -> Writer:
            writer = Writer(journal, settings, of(*topics), burst=burst, seed=seed)
            return stack.enter_context(writer)

        write(plain(servers), whole[0], burst=3)
        write(idempotent(servers), whole[1], compacted, trimmed, burst=4)
        write(transactional(servers), whole[2], compacted, burst=2)
        # Once its log is deleted nobody could tell any more what was written twice.
        once = write(idempotent(servers), again, burst=3)
        yield Subject(trimmed, again, once, min(trial.rules.nodes, 3), whole), whole


def _caught_up(trial: _Trial) -> None:
    """Until everything is copied and stored, as the stored offsets say."""
    ends = trial.ends()
    flow = trial.arena.flow
    behind: dict[tuple[str, int], tuple[int, int]] = {}

    def stored() -> bool:
        for worker in trial.arena.workers:
            ended = worker.process.poll()
            assert ended is None, f"worker {worker.number} ended with {ended}; see {worker.log}"
        if flow.offsets_topic not in topic_names(flow.target_servers):
            return False
        found = flow.stored_offsets()
        behind.clear()
        behind.update(
            {k: (found.get(k, -1), end) for k, end in ends.items() if found.get(k, -1) < end - 1}
        )
        return not behind

    try:
        wait_until(stored, _CATCH_UP_S, "everything is copied and stored")
    except Exception as error:
        raise AssertionError(f"not copied, (stored, end): {behind}") from error


def _groups_follow(trial: _Trial, committer: _Committer) -> None:
    """Until the last commits have their checkpoints, as exact as the offset map says once it
    reaches that far, and are the group's offsets on the target."""
    flow = trial.arena.flow

    def exact(pages: list[Page], partition: tuple[str, int], point: Checkpoint) -> bool:
        own = [page for page in pages if (page.topic, page.partition) == partition]
        reaches = max((page.end for page in own), default=0) > point.upstream
        known = targets(own).get(point.upstream, point.downstream)
        return reaches and point.downstream == known

    def done() -> bool:
        topic = f"{flow.a}.checkpoints.internal"
        if topic not in topic_names(flow.target_servers):
            return False
        latest = {}
        for record in read(flow.target_servers, topic):
            point = parse_checkpoint(record.key or b"", record.value or b"")
            latest[point.group, point.topic, point.partition] = point
        copies = [(flow.remote(name), number) for name, number in committer.last]
        there = committed(flow.target_servers, committer.group, copies)
        pages = trial.pages()
        for (name, number), offset in committer.last.items():
            found = latest.get((committer.group, flow.remote(name), number))
            if found is None or found.upstream != offset:
                return False
            if not exact(pages, (name, number), found):
                return False
            if there.get((flow.remote(name), number)) != found.downstream:
                return False
        return True

    try:
        wait_until(done, _CATCH_UP_S / 2, "groups follow")
    except Exception:  # noqa: BLE001 - the checker says what is missing, partition by partition
        return


def trial(rules: Rules, kafka: KafkaRuntime, logs: Path) -> Outcome:
    """Run it. Raises where it could not be carried out; what is wrong with the copy is in the
    outcome."""
    actions = plan(rules.seed, rules.seconds, nodes=rules.nodes, workers=rules.workers)
    outcome = Outcome(rules, show(actions))
    with ExitStack() as stack:
        made = stack.enter_context(arena(rules.nodes, rules.workers, kafka, logs))
        this = _Trial(rules, made)
        with _writing(this, rules.seed) as (subject, whole):
            made.add_workers(rules.workers, this.properties(), stack)
            committer = _Committer(made.flow.source_servers, unique("group"), this.of(*whole))
            stack.callback(committer.close)
            injector = Injector(made, subject)
            try:
                _copying(this, whole[0])
                injector.carry_out(actions, rules.seconds)
            finally:
                outcome.story, outcome.done = injector.story, injector.done
                committer.stop()
                (logs / "story.txt").write_text("\n".join([outcome.schedule, *outcome.story]))
        outcome.findings += _finish(this, committer)
        outcome.fates = {fate.value: this.journal.count(fate) for fate in Fate}
        this.check(outcome, committer)
    return outcome


def _copying(trial: _Trial, topic: str) -> None:
    """Faults begin when the mirror works."""
    flow = trial.arena.flow

    def grows() -> bool:
        remote = flow.remote(topic)
        if remote not in topic_names(flow.target_servers):
            return False
        try:
            return sum(end_offsets(flow.target_servers, remote).values()) > 0
        except KafkaException:
            return False

    wait_until(grows, _CATCH_UP_S, "the mirror copies")


def _finish(trial: _Trial, committer: _Committer) -> list[Finding]:
    """All is whole again: wait for the copy, let the group commit for the last time, and stop.
    Which workers did not stop cleanly."""
    _caught_up(trial)
    wait_until(lambda: committer.commits(back=25), _CATCH_UP_S, "the group commits once more")
    _groups_follow(trial, committer)
    ended = [(worker, worker.stop()) for worker in trial.arena.workers]
    return [
        Finding("stop", worker.name, f"it ended with {status}; see {worker.log}")
        for worker, status in ended
        if status
    ]
