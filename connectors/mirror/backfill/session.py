"""Runs one backfill: check for conflicts, lock, plan, copy, release."""

from __future__ import annotations

from collections.abc import Callable, Collection

from connect.protocol.messages import TopicPartition
from connectors.mirror.backfill.cluster_facts import ClusterFacts
from connectors.mirror.backfill.engines import PieceEngine
from connectors.mirror.backfill.errors import FlowIsRunning
from connectors.mirror.backfill.job import BackfillJob, JobOutcome
from connectors.mirror.backfill.lock import backfill_lock
from connectors.mirror.backfill.plan import BackfillPlan, Survey, make_plan
from connectors.mirror.backfill.progress import JobProgress
from connectors.mirror.backfill.progress_store import BackfillProgressStore
from connectors.mirror.backfill.scheduler import BackfillScheduler, SchedulerOptions
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.running_flow import LiveFlow, look_at_flow

__all__ = ["BackfillSession"]


class BackfillSession:
    """One backfill. Call `prepare`, `run` and `close` from one thread."""

    def __init__(self, flow: DedicatedFlow, gatherer: Survey, say: Callable[[str], None]) -> None:
        """`say` receives a sentence for the user when the session has to wait. The caller closes
        the gatherer."""
        self._flow = flow
        self._gatherer = gatherer
        self._say = say
        self._account = BackfillProgressStore(flow)
        self._lock = backfill_lock(flow)
        self._prepared: tuple[BackfillPlan, ClusterFacts] | None = None

    def look(self) -> tuple[BackfillPlan, ClusterFacts]:
        """Return the plan without changing anything. Raises `BackfillRefused`, and the errors of
        the requests."""
        facts = self._gatherer.gather(create=False)
        self._refuse_beside_flow(facts.ends)
        return make_plan(facts, self._gatherer), facts

    def prepare(self) -> tuple[BackfillPlan, ClusterFacts]:
        """Return the plan and get ready to run it: create topics, and lock the flow against other
        backfills."""
        self._refuse_beside_flow(self._gatherer.gather(create=False).ends)
        self._account.start()
        self._lock.acquire(self._say)
        # Read the facts under the lock, because other backfills cannot change them then.
        facts = self._gatherer.gather(create=True)
        self._refuse_beside_flow(facts.ends)
        self._prepared = make_plan(facts, self._gatherer), facts
        return self._prepared

    def run(
        self,
        engine: PieceEngine,
        dealing: SchedulerOptions,
        slots: Callable[[], int],
        stopping: Callable[[], bool],
        tell: Callable[[JobProgress], None],
    ) -> JobOutcome:
        """Copy the prepared plan, as `BackfillJob.run` does. `slots`: how many pieces may be in
        flight now; executors come and go."""
        assert self._prepared is not None, "call prepare before run"
        plan, facts = self._prepared
        self._account.begin({logs.source: logs.stored for logs in facts.logs})
        dealer = BackfillScheduler.of(plan.jobs, dealing)

        def look() -> None:
            self._lock.check()
            self._refuse_beside_flow(dealer.jobs)

        job = BackfillJob(
            plan,
            facts,
            self._gatherer,
            dealer,
            self._account,
            engine,
            slots=slots,
            look=look,
            tell=tell,
        )
        return job.run(stopping)

    def close(self) -> None:
        """Release everything. May be called at any time."""
        self._account.close()
        self._lock.release()

    def _refuse_beside_flow(self, wanted: Collection[TopicPartition]) -> None:
        error = _refusal(look_at_flow(self._flow), self._flow.name, wanted)
        if error is not None:
            raise error


def _refusal(live: LiveFlow, flow: str, wanted: Collection[TopicPartition]) -> FlowIsRunning | None:
    """Return why these partitions must not be copied beside the live flow; None if they may."""
    if not live.members:
        return None
    held = sorted(key for key in wanted if key in live.assigned)
    taken = sorted({topic for topic, _ in wanted if live.takes(topic)})
    if not held and not taken:
        return None
    what = f"{held[0][0]}-{held[0][1]}" if held else f"topic {taken[0]}"
    others = (len(held) if held else len(taken)) - 1
    more = f" and {others} more" if others else ""
    return FlowIsRunning(
        f"{flow} is running ({live.members[0]}) and {'copies' if held else 'would copy'} "
        f"{what}{more}: a simultaneous backfill would break the order. Stop the flow's workers, "
        "or stop the connector by REST (PUT .../stop), or exclude the topic from the flow's "
        "topics until the backfill is done"
    )
