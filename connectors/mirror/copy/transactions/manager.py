"""Writes batches and source offsets in the same transactions: exactly-once for the copy engine.

Transactions follow one another (`states.py`). Their members are the partitions that have something
to send. During a commit nothing is sent, and fetching continues. `settle` receives acknowledged
batches only after their commit. Uncommitted batches are copied again from the position that each
partition had when it was added.

Runs on the copy engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from concurrent.futures import Future

from connect.clients.errors import error_from_code
from connect.errors import ConnectError, TaskFailed
from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import ProducedPartition, TopicPartition
from connectors.mirror.copy.context import CopyContext, LossFound, Overdue, Settled
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.produce_errors import ABORTABLE
from connectors.mirror.copy.partition.states import CopyState
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.settings import TransactionPlan
from connectors.mirror.copy.transactions.offsets_partitions import OffsetsPartitions
from connectors.mirror.copy.transactions.participants import TransactionPartitions
from connectors.mirror.copy.transactions.states import Event, Phase, TransactionState
from connectors.mirror.copy.transactions.timing import LOOK_S, TransactionPace
from connectors.mirror.copy.transactions.uncommitted import TransactionRequests, Uncommitted

__all__ = ["TransactionManager"]

_LOG = logging.getLogger(__name__)

_STORE_POSITIONS_S = 60.0
"""How often positions that advanced without records (markers, aborted records) are stored."""

_ANSWERS_S = 5.0
"""An abort waits this long for responses; then the connection is closed."""


class TransactionManager:
    """Runs the engine's transactions. `failure`: why no more transactions are possible; the task
    raises it."""

    def __init__(self, context: CopyContext, plan: TransactionPlan) -> None:
        self._context = context
        self._control = plan.control
        self._loop = loop = context.loop
        self._life = TransactionState()
        self.failure: Exception | None = None
        self._offsets = OffsetsPartitions(context, plan)
        self._members = TransactionPartitions(context, plan.control, self._offsets, self)
        self._pace = TransactionPace(plan.control.timeout_s, plan.control.boundary_s, loop.now())
        self._held_back: dict[PartitionCopy, None] = {}
        self._equipped: set[TopicPartition] = set()
        self._renew_after: str | None = None
        self._uncommitted = Uncommitted(context)
        self._requests = TransactionRequests()
        self._look_posted = False
        self._reason = ""
        self._looking = loop.after(LOOK_S, self._look)
        loop.after(_STORE_POSITIONS_S, self._store_positions)

    # Calls from target nodes and the produce handler.

    @property
    def transactional_id(self) -> str:
        return self._control.transactional_id

    @property
    def offsets_partitions(self) -> Collection[TargetPartition]:
        """Partitions of the offsets topic."""
        return self._offsets.all

    @property
    def trouble(self) -> str | None:
        return self._control.trouble

    @property
    def length_s(self) -> float:
        return self._pace.length_s

    @property
    def aborted_because(self) -> str | None:
        """Return why the last transaction was aborted; None: it was committed."""
        return self._reason or None

    def begun(self, partition: PartitionCopy) -> int | None:
        """Return a partition's source offset before the open transaction; None: it has no part in
        it."""
        return self._members.begun(partition)

    def equip(self, partition: PartitionCopy) -> None:
        """Give a partition the producer. Its sequence starts at 0. If the target had batches of
        this epoch before, it could mistake new ones for those, so a new epoch is needed."""
        if partition.target in self._equipped:
            why = f"the sequence numbers of {partition.target[0]}-{partition.target[1]} start again"
            self._abort(why)
        self._equipped.add(partition.target)
        partition.producer_id, partition.producer_epoch = self._control.producer

    def admits(self, partition: TargetPartition) -> bool:
        """Whether the partition's next batch may be sent now. If not, it is offered again later."""
        phase = self._life.phase
        if not isinstance(partition, PartitionCopy):
            return phase is Phase.STORING
        member = self._members.begun(partition) is not None
        if phase is Phase.OPEN and member:
            return True
        if phase is Phase.CLOSING and member and partition.queue[0].maybe_written:
            return True  # No transaction ends before the outcome is known.
        if phase in (Phase.IDLE, Phase.OPEN):
            self._members.want(partition)
        else:
            self._held_back[partition] = None
        return False

    def aborts(self, result: ProducedPartition) -> bool:
        """Whether an error for a batch, if no earlier batch is the cause, makes a commit
        impossible."""
        if result.error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            self.fail(error_from_code(result.error, "Producing in a transaction", result.message))
            return True
        return result.error in ABORTABLE

    def abort_for(self, partition: TargetPartition, reason: str) -> None:
        """Abort the open transaction, because the partition's oldest batch failed."""
        self._abort(f"{partition.target[0]}-{partition.target[1]}: {reason}")

    def hold(self, settled: Settled) -> None:
        """Hold an acknowledged batch until it is committed."""
        self._uncommitted.add(settled)

    def report(self, found: LossFound) -> None:
        """Report a loss, after the transaction if the partition is part of it."""
        if self._members.begun(found.partition) is None:
            self._context.listener.lost(*found)
        else:
            self._uncommitted.add(found)

    def answered(self, *, some_idle: bool) -> None:
        """Handle batches that were answered or whose connection is lost. Call once all results of a
        response are handled. `some_idle`: a partition among them has no batch left."""
        phase = self._life.phase
        if phase is Phase.OPEN:
            if some_idle:
                self._look_soon()
        elif phase is Phase.CLOSING:
            self._store_offsets()
        elif phase is Phase.STORING:
            self._commit_if_stored()
        elif phase is Phase.ABORTABLE_ERROR:
            self._abort_if_answered()

    def relocated(self, partition: PartitionCopy) -> None:
        """Handle a partition that moved to another position because one of its logs changed."""
        self._members.relocated(partition)
        if partition.behind_stored or partition.facts_to_store:
            self.request()

    # Calls from the engine.

    def request(self) -> Future[None]:
        """Commit soon all that is acknowledged, before the boundary."""
        done = self._requests.add()
        self.serve_requests()
        return done

    def renew(self) -> None:
        """Use the control's new producer, whose epoch no partition has used. Nothing may be in
        flight."""
        self._equipped.clear()
        self._renew_after = None
        self._offsets.start_over()

    def close(self) -> None:
        self._requests.end_all(ConnectError("The task has ended"))

    # Start of a transaction: calls from the members.

    def may_add(self) -> float | None:
        if self._life.phase not in (Phase.IDLE, Phase.OPEN):
            return None
        return max(0.0, self._pace.not_before - self._loop.now())

    def added(self, asked_at: float) -> None:
        first = self._life.phase is Phase.IDLE
        self._life.on(Event.ADDED)
        if first:
            self._pace.opened(self._loop.now(), asked_at)
            self._looking.cancel()
            self._looking = self._loop.after(LOOK_S, self._look)

    # End of a transaction.

    def _look_soon(self) -> None:
        if not self._look_posted and self._pace.may_end_idle(self._loop.now()):
            self._look_posted = True
            self._loop.post(self._look_now)

    def _look_now(self) -> None:
        self._look_posted = False
        if self._life.phase is Phase.OPEN and self._due():
            self._close_it()

    def _look(self) -> None:
        """Check periodically whether the open transaction must end."""
        self._look_now()
        if self._life.phase is Phase.OPEN:
            self._looking = self._loop.after(LOOK_S, self._look)

    def _due(self) -> bool:
        now = self._loop.now()
        if self._pace.overdue(now):
            return True
        wanted = self._requests or not self._context.fetching or self._pace.full(now)
        if not wanted and not (self._pace.may_end_idle(now) and self._idle()):
            return False
        # A failing partition does not block the others while it recovers.
        return not any(
            p.outcome_unknown
            and (p.state is not CopyState.ACTIVE or self._context.waits_for_silent(p))
            for p in self._members.all
        )

    def _idle(self) -> bool:
        return not self._members.waiting and not any(
            p.queue or p.in_flight for p in self._members.all
        )

    def _close_it(self) -> None:
        self._life.on(Event.DUE)
        now = self._loop.now()
        self._pace.closing(now)
        self._loop.after(self._pace.patience_s, lambda: self._give_up(now))
        self._store_offsets()

    def _give_up(self, closing_at: float) -> None:
        """Abort because some responses are overdue, and the other partitions cannot wait longer."""
        ending = self._life.phase in (Phase.CLOSING, Phase.STORING)
        if ending and self._pace.closing_at == closing_at:
            written = (*self._members.all, *self._offsets.all)
            late = [p for p in written if p.outcome_unknown]
            names = ", ".join(sorted(f"{p.target[0]}-{p.target[1]}" for p in late))
            self._abort(f"the target did not say whether it wrote the batches sent to {names}")

    def _store_offsets(self) -> None:
        """Store the source offsets once all sent batches are answered."""
        if any(p.outcome_unknown for p in self._members.all):
            return
        self._life.on(Event.ANSWERED)
        try:
            self._offsets.store(self._moved())
        except ConnectError as error:
            self.fail(error)
            return
        self._commit_if_stored()

    def _moved(self) -> list[PartitionCopy]:
        """Return the partitions whose offsets belong to this transaction: its members, or all
        partitions if requested."""
        if not self._requests.everything:
            return [p for p in self._members.all if p.unstored]
        moved = [p for p in self._context.partitions.values() if p.unstored]
        covered = [p for p in moved if self._offsets.has(p)]
        if len(covered) == len(moved):
            self._requests.begin()
        return covered

    def _commit_if_stored(self) -> None:
        if self._life.phase is not Phase.STORING:
            return
        refused = self._offsets.blocked()
        if refused is not None:
            self.fail(TaskFailed(f"Cannot store source offsets: {refused.target_error}"))
        elif self._offsets.stored:
            self._life.on(Event.STORED)
            commit = self._control.commit(self._uncommitted.records)
            self._context.when_answered(commit, self._committed, self._end_refused)

    def _committed(self, _: None) -> None:
        self._life.on(Event.COMMITTED)
        self._reason = ""
        self._pace.committed(self._loop.now())
        stored = self._offsets.committed()
        self._members.forget()
        self._uncommitted.pass_on(committed=True)
        self._context.listener.committed(stored)
        self._requests.end()
        why, self._renew_after = self._renew_after, None
        if why is not None:
            self._abort(why)
        self._go_on()

    def _go_on(self) -> None:
        """Offer held-back partitions again, because the next transaction may start."""
        held, self._held_back = self._held_back, {}
        for partition in held:
            if partition.queue:
                self._context.mark(partition)
        if self._members.waiting:
            self._members.ask_soon()
        self.serve_requests()

    # Requests to commit.

    def serve_requests(self) -> None:
        """Complete requests with nothing left to commit; otherwise start or end a transaction."""
        if not self._requests:
            return
        if self._life.phase is Phase.OPEN:
            self._loop.post(self._look_now)
        elif self._life.phase is Phase.IDLE and not self._store_what_moved():
            self._requests.end_all()

    def _store_what_moved(self) -> bool:
        """Start a transaction if positions advanced without being stored."""
        moved = [p for p in self._context.partitions.values() if p.unstored]
        if moved:
            self._requests.everything = True
            self._members.want_offsets(moved)
        return bool(moved)

    def _store_positions(self) -> None:
        if self._life.phase is Phase.IDLE:
            self._store_what_moved()
        self._loop.after(_STORE_POSITIONS_S, self._store_positions)

    # Aborts.

    def fail(self, error: Exception) -> None:
        """Fail the task. Nothing more is committed."""
        self._life.on(Event.FAIL)
        self.failure = self.failure or error
        self._loop.wake()

    def judge(self, error: ConnectError) -> None:
        """Abort the transaction, or fail the task, because partitions could not be added."""
        if error.abortable:
            self._abort(str(error))
        else:
            self.fail(error)

    def _end_refused(self, error: ConnectError) -> None:
        """Handle a coordinator that rejected a commit or an abort."""
        if error.abortable and self._life.phase is Phase.COMMITTING:
            self._abort_because(str(error))
        else:
            self.fail(error)

    def _abort(self, reason: str) -> None:
        before = self._life.phase
        if before is Phase.COMMITTING:
            # The coordinator received the request, and its response counts. A new epoch is needed
            # next.
            self._renew_after = self._renew_after or reason
            return
        if before is Phase.ABORTABLE_ERROR:
            return
        self._abort_because(reason)

    def _abort_because(self, reason: str) -> None:
        if self._life.on(Event.ABORTABLE_ERROR) is not Phase.ABORTABLE_ERROR:
            return
        self._reason = reason
        _LOG.warning(
            "%s: aborting the transaction; its records are copied again: %s",
            self.transactional_id,
            reason,
        )
        self._loop.after(_ANSWERS_S, lambda: self._cut_off(reason))
        # The caller may be in the middle of handling a batch's result.
        self._loop.post(self._abort_if_answered)

    def _unanswered(self) -> list[TargetPartition]:
        """Partitions with batches that are not answered."""
        return [p for p in (*self._members.all, *self._offsets.all) if p.unanswered]

    def _cut_off(self, reason: str) -> None:
        """Close connections with overdue responses, because silent brokers may respond only after
        the transaction's timeout."""
        if self._life.phase is Phase.ABORTABLE_ERROR and self._reason == reason:
            for partition in self._unanswered():
                self._context.post(Overdue(partition))

    def _abort_if_answered(self) -> None:
        if self._life.phase is Phase.ABORTABLE_ERROR and not self._unanswered():
            self._life.on(Event.ANSWERED)
            abort = self._control.abort(self._reason)
            self._context.when_answered(abort, self._aborted, self._end_refused)

    def _aborted(self, _: None) -> None:
        self._life.on(Event.ABORTED)
        self._pace.aborted(self._loop.now())
        self._uncommitted.pass_on(committed=False)
        self._requests.repeat()
        self._renew_after = None
        self._equipped.clear()
        for partition in self._context.partitions.values():
            begun = self._members.begun(partition)
            if begun is not None:
                partition.go_back(begun)
            partition.restart_sequence()
            self.equip(partition)
        self._offsets.start_over()
        self._members.forget()
        for partition in self._context.partitions.values():
            self._context.mark(partition)
        self._go_on()
