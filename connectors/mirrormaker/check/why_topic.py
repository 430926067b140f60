"""Why a topic is not mirrored, or lags."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from connect.clients.librdkafka.admin import Admin
from connect.clock import SYSTEM_CLOCK
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError, ConnectError
from connectors.mirror.config.clients import source_admin, target_admin
from connectors.mirror.config.history_url import is_off
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.filters import DefaultTopicFilter
from connectors.mirror.history.queries import flow_losses
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.running_flow import LiveFlow, look_at_flow
from connectors.mirror.inspect.stored_progress import stored_positions
from connectors.mirror.topics.clusters import CONTACT_TIMEOUT_S, contact, topic_selector
from connectors.mirror.topics.provenance_topic import FlowTopics
from connectors.mirror.topics.selection import Selection, Skip, SkipReason, TopicSelector
from connectors.mirrormaker.check.loops import loop_step
from connectors.mirrormaker.check.why import Explanation, Step, Verdict, deciding_key, enabled_step
from connectors.mirrormaker.check.why_running import paused_step, workers_step
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.precedence import Flow
from connectors.mirrormaker.flow_plans import SOURCE, plan_flows, resolved_source_config

__all__ = ["RunningPartition", "why_topic"]

LOSS_IS_NEAR_S = 24 * 3600.0
"""Losses that are expected later than this are not reported yet."""

SLOW_ANSWER_S = 1.0
"""Brokers list even 100,000 partitions in less, over a connection that is open."""

_LOSSES_MS = 24 * 3_600_000
_TIMEOUT_S = 30.0
_SHOWN = 5

RunningPartition = Mapping[str, Any]
"""A partition as `/mirrors/{flow}/lag` of a running mirror describes it."""


def why_topic(
    config: MirrorMakerConfig,
    flow: Flow,
    topic: str,
    running: Sequence[RunningPartition] | None,
    *,
    or_group: bool = False,
) -> Explanation:
    """Explain what the flow does with a topic. `running`: the partitions of the running mirror;
    None if it was not asked or does not answer. `or_group`: the name may be that of a consumer
    group that this user may not describe. Raises `ConfigError`."""
    found = Explanation(topic, "topic", str(flow))
    if not found.add(enabled_step(config, flow)):
        return found
    plan = next(p for p in plan_flows(config) if p.name == str(flow))
    props = resolved_source_config(config, plan)
    with (
        closing(Admin(source_admin(props))) as source,
        closing(Admin(target_admin(props))) as target,
    ):
        worker = WorkerConfig.from_properties(config.worker_config(*flow))
        dedicated = DedicatedFlow(str(flow), props, worker)
        _Topic(config, flow, dedicated, source, target, found, or_group).explain(topic, running)
    return found


class _Seen(NamedTuple):
    """A cluster that answered. `topics`: numbers of partitions by name."""

    admin: Admin
    cluster_id: str
    topics: Mapping[str, int]


class _Topic:
    """Asks the questions in order. For one thread."""

    def __init__(
        self,
        config: MirrorMakerConfig,
        flow: Flow,
        dedicated: DedicatedFlow,
        source: Admin,
        target: Admin,
        found: Explanation,
        or_group: bool,
    ) -> None:
        self._config = config
        self._flow = flow
        self._dedicated = dedicated
        self._source = source
        self._target = target
        self._found = found
        self._or_group = or_group
        self._source_config = SourceConfig.from_properties(dedicated.properties)
        self._selector = topic_selector(self._source_config)

    def explain(self, name: str, running: Sequence[RunningPartition] | None) -> None:
        source = self._look_at(self._flow.source, self._source, source_admin)
        if source is None:
            return
        source_topics = source.topics
        topic = self._original(name, source_topics)
        if topic is None:
            return
        skip = self._skip(topic, source_topics)
        shares_name = skip is not None and skip.reason is SkipReason.SAME_NAME
        if not shares_name and not self._found.add(self._selected(topic, skip)):
            return
        target = self._look_at(self._flow.target, self._target, target_admin)
        if target is None:
            return
        partitions, target_topics = source_topics[topic], target.topics
        live = look_at_flow(self._dedicated)
        one_cluster = source.cluster_id == target.cluster_id
        if one_cluster:
            self._selector = topic_selector(self._source_config, same_cluster=True)
        if shares_name or one_cluster:
            # A topic that is copied already keeps its name.
            skip = self._skip(topic, source_topics, {each for each, _ in live.assigned})
            if (shares_name or skip) and not self._found.add(self._selected(topic, skip)):
                return
        if not self._found.add(self._loop(topic, partitions, source, target)):
            return
        if not self._found.add(workers_step(self._dedicated, self._flow.target, live)):
            return
        if self._source_config.name in live.paused:
            self._found.add(paused_step("its tasks copy nothing"))
        if not self._found.add(self._created(topic, partitions, target_topics)):
            return
        self._found.add(self._assigned(topic, partitions, live))
        mine = [each for each in running or () if each["topic"] == topic]
        for step in _running_steps(mine, running is not None):
            self._found.add(step)
        self._found.add(self._losses(topic))
        self._found.add(self._progress(topic, partitions, target_topics))

    def _look_at(self, alias: str, admin: Admin, client: Any) -> _Seen | None:
        """Return what a cluster has; None if it does not answer."""
        question = f"Does cluster {alias} answer?"
        try:
            found = contact(admin, alias, client(self._dedicated.properties), CONTACT_TIMEOUT_S)
            began = time.monotonic()
            topics = admin.list_topics(_TIMEOUT_S)
            took_s = time.monotonic() - began
        except ConnectError as error:
            key = f"{alias}.bootstrap.servers"
            side = "source" if alias == self._flow.source else "target"
            _, line = deciding_key(
                self._config, self._flow, SOURCE, f"{side}.cluster.bootstrap.servers"
            )
            self._found.add(Step(question, Verdict.STOP, str(error), key, line))
            return None
        if took_s < SLOW_ANSWER_S:
            self._found.add(Step(question, Verdict.OK, "yes"))
            return _Seen(admin, found, topics)
        answer = f"yes, but slowly: it took {took_s:.1f} s to list its topics"
        remedy = "Look at the network between here and the cluster, and at its brokers' load"
        self._found.add(Step(question, Verdict.WARN, answer, remedy=remedy))
        return _Seen(admin, found, topics)

    def _original(self, name: str, topics: Mapping[str, int]) -> str | None:
        """Return the source topic; None if there is none. Accepts the name of a copy."""
        question = f"Is the topic on {self._flow.source}?"
        if name in topics:
            answer = f"yes, with {topics[name]} partitions"
            self._found.add(Step(question, Verdict.OK, answer))
            return name
        policy = self._selector.policy
        if policy.topic_source(name) == self._flow.source:
            upstream = policy.upstream_topic(name)
            if upstream is not None and upstream in topics:
                answer = f"{name} is the name of a copy: its source is {upstream}"
                self._found.add(Step(question, Verdict.OK, answer))
                return upstream
        hidden = bool(self._source.forbidden_topics([name], _TIMEOUT_S))
        if self._or_group:
            self._found.add(_hidden_group(name, topic_hidden=hidden))
            return None
        if hidden:
            self._found.add(self._hidden(question, name, "Describe"))
            return None
        similar = [each for each in topics if name.lower() in each.lower()][:_SHOWN]
        hint = f"; similar: {', '.join(similar)}" if similar else ""
        answer = f"no topic {name} is on {self._flow.source}{hint}"
        remedy = "Create it, or check its name"
        self._found.add(Step(question, Verdict.STOP, answer, remedy=remedy))
        return None

    def _hidden(self, question: str, topic: str, needed: str) -> Step:
        answer = f"not known: this user may not describe topic {topic} (TOPIC_AUTHORIZATION_FAILED)"
        return Step(question, Verdict.STOP, answer, remedy=f"Grant {needed} on topic {topic}")

    def _skip(
        self, topic: str, source_topics: Mapping[str, int], mirrored: Container[str] = ()
    ) -> Skip | None:
        """Return why the flow leaves a topic of the source out; None if it does not. `mirrored`:
        topics that it copies already."""
        skipped = self._selector.select(source_topics, mirrored).skipped
        return next((skip for skip in skipped if skip.topic == topic), None)

    def _selected(self, topic: str, skip: Skip | None) -> Step:
        question = "Does the flow select the topic?"
        if skip is None:
            answer = f"yes, as {self._selector.remote(topic)}"
            return Step(question, Verdict.OK, answer, *self._key("topics"))
        name = _deciding(skip, self._selector, topic)
        key: str | None = None
        line: int | None = None
        if name is not None:
            key, line = self._key(name)
        remedy = {
            "topics": f"Add it to {key}",
            "topics.exclude": f"Change {key}",
        }.get(name or "", "")
        return Step(question, Verdict.STOP, f"no: {skip.detail}", key, line, remedy)

    def _loop(self, topic: str, partitions: int, source: _Seen, target: _Seen) -> Step:
        topics = FlowTopics(
            (source.admin, source.cluster_id),
            (target.admin, target.cluster_id),
            self._selector,
            Selection({topic: partitions}, ()),
        )
        return loop_step(self._source_config, topics, self._key("mirror.provenance.enabled"))

    def _created(self, topic: str, partitions: int, target_topics: Mapping[str, int]) -> Step:
        remote = self._selector.remote(topic)
        question = f"Is the copy on {self._flow.target}?"
        existing = target_topics.get(remote)
        key, line = self._key("refresh.topics.interval.seconds")
        if existing is None and self._target.forbidden_topics([remote], _TIMEOUT_S):
            return self._hidden(question, remote, "Describe")
        if existing is None:
            answer = f"no: {remote} is not created yet"
            remedy = (
                f"The mirror looks for new topics every {key} (600 by default); after that the "
                "reason is "
                "in the status of MirrorSourceConnector: connect-mirror status"
            )
            return Step(question, Verdict.STOP, answer, key, line, remedy)
        if existing < partitions:
            answer = f"{remote} has {existing} of {partitions} partitions"
            return Step(question, Verdict.WARN, answer, key, line, "The next refresh adds them")
        return Step(question, Verdict.OK, f"yes, {remote} with {existing} partitions")

    def _assigned(self, topic: str, partitions: int, live: LiveFlow) -> Step:
        question = "Do tasks have its partitions?"
        lacking = [n for n in range(partitions) if (topic, n) not in live.assigned]
        if not lacking:
            return Step(question, Verdict.OK, "yes, all")
        key, line = self._key("refresh.topics.interval.seconds")
        numbers = ", ".join(map(str, lacking[:_SHOWN]))
        answer = f"no task has partitions {numbers}{' and more' if len(lacking) > _SHOWN else ''}"
        remedy = "The next refresh assigns them; if not, see connect-mirror status"
        return Step(question, Verdict.WARN, answer, key, line, remedy)

    def _losses(self, topic: str) -> Step:
        question = "Were records lost in the last 24 hours?"
        url = self._dedicated.config.mirror_history_url
        if is_off(url):
            key, line = self._key("mirror.history.url")
            return Step(question, Verdict.OK, "not known: there is no history", key, line)
        since_ms = SYSTEM_CLOCK.now_ms() - _LOSSES_MS
        try:
            lost = flow_losses(url, self._flow.source, self._flow.target, since_ms, topic)
        except ConfigError as error:
            return Step(question, Verdict.OK, f"not known: {error}")
        if not lost:
            return Step(question, Verdict.OK, "no, according to the history")
        answer = f"yes, {sum(row['records'] for row in lost)}; the last time: {lost[0]['text']}"
        remedy = "connect-mirror history lists all; backfill copies what the source still has"
        return Step(question, Verdict.WARN, answer, remedy=remedy)

    def _progress(self, topic: str, partitions: int, target_topics: Mapping[str, int]) -> Step:
        question = "How far is the copy?"
        offsets = self._dedicated.offsets_topic.name
        if offsets not in target_topics and self._target.forbidden_topics([offsets], _TIMEOUT_S):
            return self._hidden(question, offsets, "Read")
        if offsets not in target_topics:
            return Step(question, Verdict.WARN, f"nothing is stored: {offsets} does not exist yet")
        client = self._dedicated.client("why")
        stored = stored_positions(self._dedicated.config, offsets, client)
        keys = [(topic, number) for number in range(partitions)]
        ends = self._source.end_offsets(keys, _TIMEOUT_S)
        starts = self._source.beginning_offsets(keys, _TIMEOUT_S)
        waiting = {key[1]: ends[key] - max(stored.get(key, 0), starts[key]) for key in keys}
        behind = {number: lag for number, lag in waiting.items() if lag > 0}
        if not behind:
            return Step(
                question, Verdict.OK, "every record is copied, according to the stored offsets"
            )
        shown = sorted(behind.items(), key=lambda each: -each[1])[:_SHOWN]
        most = ", ".join(f"partition {number}: {lag}" for number, lag in shown)
        total = sum(behind.values())
        answer = f"{total} records are not copied, according to the stored offsets ({most})"
        return Step(question, Verdict.WARN, answer)

    def _key(self, name: str) -> tuple[str, int | None]:
        return deciding_key(self._config, self._flow, SOURCE, name)


def _hidden_group(name: str, *, topic_hidden: bool) -> Step:
    topic = "not known, because this user may not describe it" if topic_hidden else "no such topic"
    answer = (
        f"topic {name}: {topic}; group {name}: not known, because this user may not describe it "
        "(GROUP_AUTHORIZATION_FAILED)"
    )
    remedy = f"Grant Describe on group {name} if it is a consumer group"
    if topic_hidden:
        remedy += f"; grant Describe on topic {name} if it is a topic"
    return Step("Is it a topic or a group?", Verdict.STOP, answer, remedy=remedy)


def _deciding(skip: Skip, selector: TopicSelector, topic: str) -> str | None:
    """Return the property that excludes a topic; None if no property does."""
    if selector.policy.chain is not None and selector.skip(topic) is None:
        return "transforms"
    if skip.reason in (SkipReason.CYCLE, SkipReason.SAME_NAME):
        return "replication.policy.class"
    if skip.reason is SkipReason.INTERNAL:
        return None
    if not isinstance(selector.topics, DefaultTopicFilter):
        return "topic.filter.class"
    return "topics" if selector.topics.exclude.matching(topic) is None else "topics.exclude"


def _clock_step(question: str, partitions: Sequence[RunningPartition]) -> list[Step]:
    # A worker of an earlier version does not tell.
    ahead = [each.get("timestamps_ahead_seconds") for each in partitions]
    most = max((seconds for seconds in ahead if seconds is not None), default=None)
    if most is None:
        return []
    answer = f"records have timestamps up to {most:.0f} s later than the clock of the worker"
    remedy = "Check the clocks of the worker's host and of the producers"
    return [Step(question, Verdict.WARN, answer, remedy=remedy)]


def _running_steps(partitions: Sequence[RunningPartition], was_asked: bool) -> list[Step]:
    question = "What does the running mirror say?"
    if not was_asked:
        answer = "it was not asked, or does not answer at metrics.listener"
        return [Step(question, Verdict.OK, answer)]
    stuck = [each for each in partitions if each["error"] is not None]
    steps = [
        Step(question, Verdict.WARN, f"partition {each['partition']}: {each['error']}")
        for each in stuck[:_SHOWN]
    ]
    urgent = [
        each
        for each in partitions
        if each["time_to_loss_seconds"] is not None
        and each["time_to_loss_seconds"] < LOSS_IS_NEAR_S
    ]
    if urgent:
        first = min(urgent, key=lambda each: float(each["time_to_loss_seconds"]))
        seconds = first["time_to_loss_seconds"]
        answer = (
            f"partition {first['partition']}: the source deletes records that are not copied in "
            f"{seconds:.0f} s"
        )
        remedy = "Raise retention on the source, or the flow's limits and tasks.max"
        steps.append(Step(question, Verdict.WARN, answer, remedy=remedy))
    steps += _clock_step(question, partitions)
    return steps or [Step(question, Verdict.OK, "no partition is in trouble")]
