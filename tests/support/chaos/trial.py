"""One trial: a schedule carried out while producers write and groups read, and the proof after.

    trial(rules, ...)   everything: clusters, workers, writers, groups, faults, check

A trial ends when all is copied and stored, and its workers stopped cleanly; then the logs are read.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from connect.errors import DeadlineExceeded
from deploy.brokers import KafkaRuntime
from tests.support.chaos.arena import Arena, arena
from tests.support.chaos.checker import check_copy
from tests.support.chaos.directions import Direction, Reports
from tests.support.chaos.evidence import Case, Finding, Manner
from tests.support.chaos.forms import Form, create_connectors, program, properties
from tests.support.chaos.group_checker import check_checkpoints, check_group, check_meanwhile
from tests.support.chaos.groups import Committer, Reader
from tests.support.chaos.injecting import Injector
from tests.support.chaos.journal import Fate, Journal
from tests.support.chaos.logs import (
    Checkpoint,
    Page,
    committed,
    parse_checkpoint,
    read,
    targets,
)
from tests.support.chaos.map_checker import check_map
from tests.support.chaos.needs import missing, sentence
from tests.support.chaos.outcome import Outcome, Rules
from tests.support.chaos.schedule import show
from tests.support.chaos.topic_faults import Subject
from tests.support.chaos.writing import (
    FullRateWriter,
    Settings,
    Writer,
    full_rate,
    idempotent,
    plain,
    transactional,
)
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.topics import end_offsets, has_topic
from tests.support.waiting import wait_until

__all__ = ["trial"]

_CATCH_UP_S = 240.0
_SPARK_CATCH_UP_S = 400.0
_GROUPS_S = 90.0
_READER_S = 120.0
_MOST_MB = 120.0
_BURST_EVERY_S = 4.0
_CHECKPOINTS_S = 15.0
"""A schedule must be as long as this for a checkpoint to be expected before its end: each fault
keeps the checkpoint task away for seconds, on a busy machine for longer."""


@dataclass
class _Trial:
    """What goes on in one."""

    rules: Rules
    arena: Arena
    there: Direction
    back: Direction | None
    journal: Journal = field(default_factory=Journal)
    whole: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    """Topics of which everything must be copied; of these, the last for the writer at full rate.
    `whole` are those whose leaders move, and in which a group commits."""

    @property
    def directions(self) -> list[Direction]:
        return [self.there] if self.back is None else [self.there, self.back]

    @property
    def catch_up_s(self) -> float:
        return _SPARK_CATCH_UP_S if self.rules.form is Form.SPARK else _CATCH_UP_S

    def check(self, outcome: Outcome, committer: Committer, reader: Reader) -> None:
        reports = Reports.of(worker.log for worker in self.arena.workers)
        points, on_target = self._checkpoints(committer)
        to = self.there.flow.remote
        commits = {(to(name), n): each for (name, n), each in committer.commits.items()}
        if self.rules.seconds >= _CHECKPOINTS_S:
            outcome.findings += check_meanwhile(committer.group, points, commits)
        for direction in self.directions:
            pages = direction.pages()
            for topic, number, case in direction.cases(
                self.journal,
                reports,
                exactly_once=self.rules.exactly_once,
                restarts=outcome.restarts,
                overlapping=outcome.overlapping,
                longest_s=outcome.longest_s,
            ):
                findings, tally = check_copy(case)
                outcome.tally.add(tally)
                own = [page for page in pages if (page.topic, page.partition) == (topic, number)]
                findings += check_map(case, own)
                if topic in self.read:
                    findings += check_group(case, reader.read)
                if (topic, number) in committer.commits:
                    remote = (direction.flow.remote(topic), number)
                    mine = [p for p in points if (p.topic, p.partition) == remote]
                    findings += check_checkpoints(
                        case,
                        mine,
                        committer.commits[topic, number],
                        target_lost=reports.target_lost,
                    )
                    findings += _check_synced(case, mine, on_target.get(remote))
                outcome.findings += findings

    def _checkpoints(
        self, committer: Committer
    ) -> tuple[list[Checkpoint], Mapping[tuple[str, int], int]]:
        """Of the committer's group, and where it is on the target."""
        flow = self.there.flow
        found = [
            parse_checkpoint(record.key or b"", record.value or b"")
            for record in read(flow.target_servers, f"{flow.a}.checkpoints.internal")
        ]
        copies = [(flow.remote(topic), number) for topic, number in committer.commits]
        on_target = committed(flow.target_servers, committer.group, copies)
        return [point for point in found if point.group == committer.group], on_target


def _check_synced(case: Case, found: list[Checkpoint], at: int | None) -> Iterator[Finding]:
    if found and at != found[-1].downstream:
        text = f"the group is at {at} on the target, not {found[-1]}"
        yield Finding("checkpoint", case.name, text)


@contextmanager
def _writing(trial: _Trial) -> Iterator[Subject]:
    """The writers, and what may be done to their topics."""
    rules, there, journal = trial.rules, trial.there, trial.journal
    servers = there.flow.source_servers
    trial.whole = tuple(there.make(name, 2) for name in ("plain", "idempotent", "transactional"))
    compacted = there.make("compacted", 1, Manner.COMPACTED)
    trimmed = there.make("trimmed", 2, Manner.TRIMMED)
    again = there.make("again", 1, Manner.CREATED_AGAIN)
    growing = there.make("growing", 1)
    bulk = there.make("bulk", 3)
    trial.read = (*trial.whole, bulk)
    with ExitStack() as stack:

        def write(settings: Settings, *topics: str, burst: int) -> Writer:
            partitions = there.of(*topics)
            writer = Writer(journal, settings, partitions, burst=burst, seed=rules.seed)
            return stack.enter_context(writer)

        write(plain(servers), trial.whole[0], burst=3)
        write(idempotent(servers), trial.whole[1], compacted, trimmed, burst=4)
        write(transactional(servers), trial.whole[2], compacted, burst=2)
        # Once its log is deleted nobody could tell any more what was written twice.
        once = write(idempotent(servers), again, burst=3)
        grower = write(idempotent(servers), growing, burst=3)
        every_s = max(_BURST_EVERY_S, rules.seconds * rules.burst_mb / _MOST_MB)
        stack.enter_context(
            FullRateWriter(
                journal,
                full_rate(servers),
                there.of(bulk),
                burst_mb=rules.burst_mb,
                every_s=every_s,
                most_mb=_MOST_MB,
                seed=rules.seed,
            )
        )
        if trial.back is not None:
            returning = trial.back.of(trial.back.make("back", 2))
            settings = idempotent(trial.back.flow.source_servers)
            stack.enter_context(Writer(journal, settings, returning, burst=4, seed=rules.seed))
        yield Subject(trimmed, again, once, growing, grower, there.copies, trial.whole)


def _caught_up(trial: _Trial) -> None:
    """Until everything is copied and stored, as the stored offsets say."""
    for direction in trial.directions:
        _direction_caught_up(trial, direction)


def _direction_caught_up(trial: _Trial, direction: Direction) -> None:
    ends, flow = direction.ends(), direction.flow
    behind: dict[tuple[str, int], tuple[int, int]] = {}

    def stored() -> bool:
        for worker in trial.arena.workers:
            ended = worker.process.poll()
            assert ended is None, f"worker {worker.number} ended with {ended}; see {worker.log}"
        if not has_topic(flow.target_servers, flow.offsets_topic):
            return False
        found = flow.stored_offsets()
        behind.clear()
        behind.update(
            {k: (found.get(k, -1), end) for k, end in ends.items() if found.get(k, -1) < end - 1}
        )
        return not behind

    try:
        wait_until(stored, trial.catch_up_s, "everything is copied and stored")
    except Exception as error:
        raise AssertionError(f"not copied, (stored, end): {behind}") from error


def _groups_follow(trial: _Trial, committer: Committer) -> None:
    """Until the last commits have their checkpoints, as exact as the offset map says once it
    reaches that far, and are the group's offsets on the target."""
    flow = trial.there.flow

    def exact(
        pages: list[Page], partition: tuple[str, int], offset: int, point: Checkpoint
    ) -> bool:
        own = [page for page in pages if (page.topic, page.partition) == partition]
        reaches = max((page.end for page in own), default=0) > offset
        due = min((each for each in targets(own).items() if each[0] >= offset), default=None)
        if due is None:
            return reaches and point.upstream == offset
        return reaches and point.downstream == due[1]

    def done() -> bool:
        topic = f"{flow.a}.checkpoints.internal"
        if not has_topic(flow.target_servers, topic):
            return False
        latest = {}
        for record in read(flow.target_servers, topic):
            point = parse_checkpoint(record.key or b"", record.value or b"")
            latest[point.group, point.topic, point.partition] = point
        copies = [(flow.remote(name), number) for name, number in committer.last]
        there = committed(flow.target_servers, committer.group, copies)
        pages = trial.there.pages()
        for (name, number), offset in committer.last.items():
            found = latest.get((committer.group, flow.remote(name), number))
            if found is None or found.upstream > offset:
                return False
            if not exact(pages, (name, number), offset, found):
                return False
            if there.get((flow.remote(name), number)) != found.downstream:
                return False
        return True

    try:
        wait_until(done, _GROUPS_S, "groups follow")
    except Exception:  # noqa: BLE001 - the checker says what is missing, partition by partition
        return


def _reader_ends(trial: _Trial, reader: Reader) -> None:
    """Until the group that failed over has read everything."""
    wanted = {
        name
        for name, each in trial.journal.records.items()
        if each.topic in trial.read and each.fate is Fate.ACKNOWLEDGED
    }
    try:
        wait_until(lambda: reader.has_read(wanted), _READER_S, "the group has read all")
    except DeadlineExceeded:  # the checker says what it skipped
        return
    finally:
        reader.close()


def trial(rules: Rules, kafka: KafkaRuntime, logs: Path) -> Outcome:
    """Run it. Raises where it could not be carried out; what is wrong with the copy is in the
    outcome."""
    if lacking := missing(rules.without):
        raise AssertionError(sentence(lacking))
    actions = rules.actions()
    outcome = Outcome(rules, show(actions))
    draw = random.Random(f"{rules.seed}/reader")
    with ExitStack() as stack:
        made = stack.enter_context(
            arena(rules.nodes, rules.controllers, rules.workers, rules.without, kafka, logs)
        )
        this = _made(rules, made)
        with _writing(this) as subject:
            _start_workers(this, stack)
            committer = Committer(made.flow.source_servers, this.there.of(*this.whole))
            stack.callback(committer.close)
            injector = Injector(made, subject, rules.seed)
            reader = Reader(made.flow, this.read, commits_last=draw.random() < 0.5)
            stack.callback(reader.close)
            try:
                _copying(this)
                over = threading.Timer(rules.seconds * draw.uniform(0.3, 0.7), reader.fail_over)
                stack.callback(over.cancel)
                over.start()
                injector.carry_out(actions, rules.seconds)
            finally:
                outcome.story, outcome.done = injector.story, injector.done
                outcome.longest_s = injector.longest_s
                committer.stop()
                (logs / "story.txt").write_text("\n".join([outcome.schedule, *outcome.story]))
            this.there.partitions[subject.growing] = injector.topics.partitions
        outcome.fates = {fate.value: this.journal.count(fate) for fate in Fate}
        outcome.findings += _finish(this, committer, reader)
        outcome.read = dict(reader.counts)
        this.check(outcome, committer, reader)
    return outcome


def _made(rules: Rules, made: Arena) -> _Trial:
    copies, flow = min(rules.nodes, 3), made.flow
    back = None
    if rules.form is Form.TWO_WAY:
        turned = MirroredFlow(flow.target, flow.source, flow.prefix, flow.b, flow.a)
        back = Direction(turned, copies)
    return _Trial(rules, made, Direction(flow, copies), back)


def _start_workers(trial: _Trial, stack: ExitStack) -> None:
    rules, copies = trial.rules, trial.there.copies
    trial.arena.add_workers(
        rules.workers,
        program(rules.form),
        properties(rules.form, trial.arena.flow, copies=copies, exactly_once=rules.exactly_once),
        stack,
        clock=any(action.kind == "clock jump" for action in rules.actions()),
    )
    if rules.form is Form.REST:
        create_connectors(trial.arena.flow, trial.arena.workers[0].url, copies=copies)


def _copying(trial: _Trial) -> None:
    """Faults begin when the mirror works."""
    flow = trial.there.flow

    def grows() -> bool:
        remote = flow.remote(trial.whole[0])
        if not has_topic(flow.target_servers, remote):
            return False
        try:
            return sum(end_offsets(flow.target_servers, remote).values()) > 0
        except KafkaException:
            return False

    wait_until(grows, trial.catch_up_s, "the mirror copies")


def _finish(trial: _Trial, committer: Committer, reader: Reader) -> list[Finding]:
    """All is whole again: wait for the copy, let the group commit for the last time, and stop.
    Which workers did not stop cleanly."""
    _caught_up(trial)
    wait_until(lambda: committer.succeeds(back=25), trial.catch_up_s, "the group commits once more")
    _groups_follow(trial, committer)
    _reader_ends(trial, reader)
    ended = [(worker, worker.stop()) for worker in trial.arena.workers]
    return [
        Finding("stop", worker.name, f"it ended with {status}; see {worker.log}")
        for worker, status in ended
        if status
    ]
