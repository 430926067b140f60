"""`connect-mirror why`: why a topic is not mirrored or lags, or a group is not ready to move.

Exit codes: 0 nothing is wrong, 1 a cluster did not answer, 3 the answer names what is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from api.cli.connect_mirror.running import RunningMirror, add_url_option, listener_url
from api.cli.output.formats import print_result
from api.cli.output.tables import table_printer
from api.cli.program import EXIT_DIFFERENT, EXIT_OK
from connect.errors import ConfigError, ConnectError

if TYPE_CHECKING:
    from connectors.mirrormaker.check.why import Explanation, Step
    from connectors.mirrormaker.check.why_topic import RunningPartition
    from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
    from connectors.mirrormaker.config.precedence import Flow

__all__ = ["add_options", "print_explanations", "run"]

_MARKS = {"ok": ("ok  ", "green"), "warning": ("warn", "yellow"), "stop": ("STOP", "bold red")}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", metavar="TOPIC|GROUP", help="a topic or a consumer group")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--topic", action="store_true", help="it is a topic")
    kind.add_argument("--group", action="store_true", help="it is a consumer group")
    add_url_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation of each flow. Returns the exit code."""
    from api.cli.output.read_progress import ASKING, gathering
    from connectors.mirrormaker.check.why import Verdict
    from connectors.mirrormaker.flow_lookup import load_file

    config = load_file(arguments.config)
    flows = _flows(config, arguments.flow)
    with gathering(ASKING):
        found = [_explain(config, flow, arguments) for flow in flows]
    print_result(
        arguments,
        lambda: [each.document() for each in found],
        lambda output: print_explanations(found, output),
    )
    return EXIT_OK if all(each.verdict is Verdict.OK for each in found) else EXIT_DIFFERENT


def _flows(config: MirrorMakerConfig, name: str | None) -> list[Flow]:
    """Return the named flow, whether enabled or not; without a name all that copy."""
    from connectors.mirrormaker.config.precedence import Flow

    pairs = [Flow(a, b) for a in config.clusters for b in config.clusters if a != b]
    if name is None:
        return [flow for flow in pairs if config.mirrors(flow)] or pairs[:1]
    wanted = name.replace(" ", "")
    found = [flow for flow in pairs if wanted in (str(flow), f"{flow.source}:{flow.target}")]
    if not found:
        known = ", ".join(map(str, pairs))
        raise ConfigError(f"Invalid value for --flow: {name}. Flows: {known}", key="--flow")
    return found


def _explain(config: MirrorMakerConfig, flow: Flow, arguments: argparse.Namespace) -> Explanation:
    from connectors.mirrormaker.check.why_group import GroupSeen, group_seen, why_group
    from connectors.mirrormaker.check.why_topic import why_topic

    enabled = config.mirrors(flow)
    seen = GroupSeen.YES if arguments.group else GroupSeen.NO
    if enabled and not (arguments.group or arguments.topic):
        seen = group_seen(config, flow, arguments.subject)
    if seen is GroupSeen.YES:
        return why_group(config, flow, arguments.subject)
    running = _running(config, flow, arguments.url) if enabled else None
    hidden = seen is GroupSeen.HIDDEN
    return why_topic(config, flow, arguments.subject, running, or_group=hidden)


def _running(
    config: MirrorMakerConfig, flow: Flow, url: str | None
) -> Sequence[RunningPartition] | None:
    try:
        partitions: Sequence[RunningPartition] = RunningMirror(url or listener_url(config)).lag(
            str(flow)
        )["partitions"]
    except ConnectError:
        return None
    return partitions


def print_explanations(found: Sequence[Explanation], output: str | None) -> None:
    """Print the steps of each explanation."""
    printer = table_printer(output=output)
    for each in found:
        printer.heading(f"{each.kind} {each.subject} in flow {each.flow}")
        for step in each.steps:
            mark, style = _MARKS[step.verdict.value]
            printer.line(f"{mark}  {step.question} {step.answer}{_decided_by(step)}", style)
            if step.remedy:
                printer.line(f"      -> {step.remedy}")


def _decided_by(step: Step) -> str:
    if step.key is None:
        return ""
    where = "default" if step.line is None else f"line {step.line}"
    return f" [{step.key}, {where}]"
