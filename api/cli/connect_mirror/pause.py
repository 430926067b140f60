"""`connect-mirror pause` and `resume`: one flow of dedicated mode, whichever processes run it.

The target state of the flow's connectors is written to the config topic of the flow's group, as a
Connect worker's REST API does. All workers of the group, Java's too, follow it, also after a
restart. Only users that may write to that topic can pause a flow.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from api.cli.output.formats import print_result
from api.cli.output.tables import table_printer
from api.cli.program import EXIT_OK
from connect.storage.instance_id import TargetState

__all__ = ["pause", "resume"]


def pause(arguments: argparse.Namespace) -> int:
    """Pause the connectors of a flow. Returns the exit code."""
    return _set(arguments, TargetState.PAUSED)


def resume(arguments: argparse.Namespace) -> int:
    """Resume the connectors of a flow. Returns the exit code."""
    return _set(arguments, TargetState.STARTED)


def _set(arguments: argparse.Namespace, state: TargetState) -> int:
    from connectors.mirror.history.flow_events import write_command
    from connectors.mirror.inspect.target_state import set_target_state
    from connectors.mirrormaker.flow_lookup import named_flow

    flow = named_flow(arguments.config, arguments.flow)
    before = set_target_state(flow, state)
    changed = [name for name, old in before.items() if old is not state]
    if changed:
        command = "pause" if state is TargetState.PAUSED else "resume"
        text = f"connect-mirror {command} {flow.name}: {', '.join(changed)}"
        write_command(flow.properties, "changed", command, text)
    print_result(
        arguments,
        lambda: {
            "flow": flow.name,
            "state": state.value,
            "connectors": {name: old.value for name, old in before.items()},
        },
        lambda output: _print(flow.name, before, state, output),
    )
    return EXIT_OK


def _print(
    flow: str, before: Mapping[str, TargetState], state: TargetState, output: str | None
) -> None:
    rows = [(flow, name, old.value, state.value) for name, old in before.items()]
    table_printer(output=output).table("Connectors", ("flow", "connector", "before", "now"), rows)
