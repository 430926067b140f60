"""Why a consumer group is not ready to go on at the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from enum import Enum

from connect.clients.errors import not_authorized
from connect.clients.groups.consumer_groups import ConsumerGroups
from connect.clock import Deadline
from connect.config.java_regex import literal_regex
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connectors.mirror.config.clients import checkpoint_source_admin, checkpoint_target_admin
from connectors.mirror.failover import MoveClusters, MovedOffset, MovePlan, plan_move
from connectors.mirror.filters import DefaultGroupFilter, group_filter
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.running_flow import look_at_flow
from connectors.mirrormaker.check.why import Explanation, Step, Verdict, deciding_key, enabled_step
from connectors.mirrormaker.check.why_running import paused_step, workers_step
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.precedence import Flow
from connectors.mirrormaker.flow_plans import CHECKPOINT, plan_flows, resolved_source_config

__all__ = ["GroupSeen", "group_seen", "translated", "why_group"]

_TIMEOUT_S = 60.0
_SHOWN = 5
_EMITTED = ("emit.checkpoints.enabled", "emit.offset-syncs.enabled")


class GroupSeen(Enum):
    """Whether a consumer group is on the source cluster."""

    YES = "yes"
    NO = "no"
    HIDDEN = (
        "this user may not describe a group of this name, so it is not known whether there is one"
    )


def group_seen(config: MirrorMakerConfig, flow: Flow, name: str) -> GroupSeen:
    """Whether the source cluster of a flow has a consumer group of this name. Raises one of
    `connect.errors`."""
    plan = next(plan for plan in plan_flows(config) if plan.name == str(flow))
    props = resolved_source_config(config, plan)
    deadline = Deadline(_TIMEOUT_S)
    with closing(ConsumerGroups(checkpoint_source_admin(props))) as groups:
        if name in groups.list_groups(deadline):
            return GroupSeen.YES
        # Brokers leave groups that a user may not describe out of the list.
        found = groups.committed([name], deadline)[name]
    hidden = isinstance(found, ConnectError) and not_authorized(found)
    return GroupSeen.HIDDEN if hidden else GroupSeen.NO


def why_group(config: MirrorMakerConfig, flow: Flow, group: str) -> Explanation:
    """Explain what keeps a group from going on at the target where it is on the source. Raises
    `ConfigError`."""
    found = Explanation(group, "group", str(flow))
    if not found.add(enabled_step(config, flow)):
        return found
    plan = next(plan for plan in plan_flows(config) if plan.name == str(flow))
    source = resolved_source_config(config, plan)
    props = {**source, **plan.connectors.get(CHECKPOINT, {})}
    worker = WorkerConfig.from_properties(config.worker_config(*flow))
    for step in _settings(config, flow, props, group, emits=CHECKPOINT in plan.connectors):
        if not found.add(step):
            return found
    try:
        _look(found, DedicatedFlow(str(flow), source, worker), props, flow, group)
    except ConnectError as error:
        found.add(Step("Do both clusters answer?", Verdict.STOP, str(error)))
    return found


def _settings(
    config: MirrorMakerConfig, flow: Flow, props: Mapping[str, str], group: str, *, emits: bool
) -> list[Step]:
    """Return the steps that the file decides."""
    steps = []
    question = "Are checkpoints emitted?"
    off = [key for key in _EMITTED if props.get(key, "true").strip().lower() == "false"]
    if not emits or off:
        key, line = deciding_key(config, flow, CHECKPOINT, off[0] if off else _EMITTED[0])
        steps.append(Step(question, Verdict.STOP, "no", key, line, f"Set {key}=true"))
    else:
        steps.append(Step(question, Verdict.OK, "yes"))
    steps.append(_selected(config, flow, props, group))
    question = "Are the group's offsets committed on the target?"
    key, line = deciding_key(config, flow, CHECKPOINT, "sync.group.offsets.enabled")
    if props.get("sync.group.offsets.enabled", "false").strip().lower() == "true":
        steps.append(Step(question, Verdict.OK, "yes", key, line))
    else:
        answer = "no: offsets are only translated into checkpoints"
        remedy = f"Set {key}=true, or commit them at the failover with connect-mirror translate"
        steps.append(Step(question, Verdict.WARN, answer, key, line, remedy))
    return steps


def _selected(config: MirrorMakerConfig, flow: Flow, props: Mapping[str, str], group: str) -> Step:
    question = "Does the flow select the group?"
    groups = group_filter(props)
    if groups.should_replicate_group(group):
        key, line = deciding_key(config, flow, CHECKPOINT, "groups")
        return Step(question, Verdict.OK, "yes", key, line)
    if not isinstance(groups, DefaultGroupFilter):
        key, line = deciding_key(config, flow, CHECKPOINT, "group.filter.class")
        return Step(question, Verdict.STOP, f"no: {type(groups).__name__} excludes it", key, line)
    excluding = groups.exclude.matching(group)
    name = "groups" if excluding is None else "groups.exclude"
    key, line = deciding_key(config, flow, CHECKPOINT, name)
    if excluding is None:
        elements = ", ".join(groups.include.elements) or "groups is empty"
        answer, remedy = f"no: no element of groups matches it ({elements})", f"Add it to {key}"
    else:
        answer, remedy = f"no: {excluding} in groups.exclude matches it", f"Change {key}"
    return Step(question, Verdict.STOP, answer, key, line, remedy)


def _look(
    found: Explanation,
    dedicated: DedicatedFlow,
    props: Mapping[str, str],
    flow: Flow,
    group: str,
) -> None:
    """Add the steps that need facts from both clusters. Raises `ConnectError`."""
    deadline = Deadline(_TIMEOUT_S)
    plan = plan_move(MoveClusters(props, None), literal_regex(group), deadline, live=True)
    if not found.add(_on_source(plan, flow, group)):
        return
    for step in _running(dedicated, flow.target):
        found.add(step)
    with closing(ConsumerGroups(checkpoint_target_admin(props))) as target:
        listing = target.list_groups(deadline, [group]).get(group)
    question = f"Is the group without members on {flow.target}?"
    if listing is not None and not listing.empty and not listing.dead:
        answer = "no: it has members there, so its offsets are not overwritten"
        remedy = "Intended after a failover; otherwise stop its consumers there"
        found.add(Step(question, Verdict.WARN, answer, remedy=remedy))
    else:
        found.add(Step(question, Verdict.OK, "yes"))
    for step in translated(plan.offsets, flow):
        found.add(step)


def _on_source(plan: MovePlan, flow: Flow, group: str) -> Step:
    question = f"Has the group committed offsets of mirrored topics on {flow.source}?"
    if group in plan.unreadable:
        reason = plan.unreadable[group]
        return Step(question, Verdict.STOP, f"its offsets cannot be read: {reason}")
    if plan.offsets:
        topics = sorted({row.topic for row in plan.offsets})
        shown = ", ".join(topics[:_SHOWN])
        return Step(question, Verdict.OK, f"yes, in {len(plan.offsets)} partitions of {shown}")
    answer = f"no: {flow.source} has no group {group}, or all its topics are not mirrored"
    remedy = "connect-mirror why TOPIC says why a topic is not mirrored"
    return Step(question, Verdict.STOP, answer, remedy=remedy)


def _running(flow: DedicatedFlow, target: str) -> list[Step]:
    """Say whether workers emit the flow's checkpoints. Offsets are translated here without them."""
    try:
        live = look_at_flow(flow)
    except ConnectError as error:
        return [Step("Do workers run the flow?", Verdict.WARN, f"not known: {error}")]
    steps = [workers_step(flow, target, live, without=Verdict.WARN)]
    if CHECKPOINT in live.paused:
        steps.append(paused_step("offsets are not translated, nor committed on the target"))
    return steps


def translated(rows: Sequence[MovedOffset], flow: Flow) -> list[Step]:
    """Answer where the group would go on, and whether that is committed on the target. Pure."""
    question = "Can its offsets be translated?"
    unknown = [row for row in rows if row.new_offset is None]
    if unknown:
        shown = ", ".join(f"{row.topic}-{row.partition}" for row in unknown[:_SHOWN])
        answer = f"not in {len(unknown)} partitions: {shown}"
        remedy = (
            "These records are not copied yet, or were copied before the offset map began: "
            "connect-mirror why TOPIC"
        )
        steps = [Step(question, Verdict.WARN, answer, remedy=remedy)]
    else:
        steps = [Step(question, Verdict.OK, "yes, all")]
    again = sum(row.again or 0 for row in rows)
    later = sum(row.later for row in rows)
    question = f"Would it go on at the same record on {flow.target}?"
    if again:
        answer = f"it would read at most {again} records again"
        steps.append(Step(question, Verdict.WARN, answer))
    elif later:
        answer = (
            f"it is ahead of the copy: it would read at most {later} records again, once copied"
        )
        steps.append(Step(question, Verdict.WARN, answer))
    elif not unknown:
        steps.append(Step(question, Verdict.OK, "yes, exactly"))
    behind = [row for row in rows if row.is_ahead]
    question = f"Are its offsets on {flow.target} up to date?"
    if behind:
        shown = ", ".join(
            f"{row.new_topic}-{row.partition} has "
            f"{'none' if row.has is None else row.has}, should be {row.new_offset}"
            for row in behind[:_SHOWN]
        )
        remedy = (
            "A running flow with sync.group.offsets.enabled=true commits them: connect-mirror "
            "status says whether it runs, or is paused. connect-mirror translate --commit does it "
            "now"
        )
        steps.append(Step(question, Verdict.WARN, f"not yet: {shown}", remedy=remedy))
    else:
        steps.append(Step(question, Verdict.OK, "yes"))
    return steps
