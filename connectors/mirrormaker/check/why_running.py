"""The steps of `why` that look at a flow's workers: do they run it, and is it paused or stopped?"""

from __future__ import annotations

from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.running_flow import LiveFlow
from connectors.mirrormaker.check.why import Step, Verdict

__all__ = ["paused_step", "workers_step"]


def workers_step(
    flow: DedicatedFlow, target: str, live: LiveFlow, *, without: Verdict = Verdict.STOP
) -> Step:
    """Say whether workers run the flow. `target`: the alias of the cluster with their group.
    `without`: the verdict if there are no workers."""
    question = "Do workers run the flow?"
    if live.members:
        count = len(live.members)
        return Step(question, Verdict.OK, f"yes, {count} in group {flow.group}")
    answer = f"no: group {flow.group} on {target} has no members, or the flow is stopped"
    remedy = "Start connect-mirror run, or resume the flow with connect-mirror resume"
    return Step(question, without, answer, remedy=remedy)


def paused_step(effect: str) -> Step:
    """Say that a connector of the flow is paused or stopped. `effect`: what does not happen
    meanwhile."""
    return Step(
        "Is the flow paused or stopped?",
        Verdict.WARN,
        f"yes: {effect} until it is resumed",
        remedy="Resume it with connect-mirror resume; connect-mirror history says who paused it",
    )
