"""Writes events of a flow as a whole into its history: failures, and changes by an operator.

For callers that have no history open. The texts hold names and causes; known secrets are removed.
"""

from __future__ import annotations

import getpass
import logging
import os
import re
import socket
from collections.abc import Mapping, Sequence

from connect.config.definition import ConfigDef, ConfigProblem
from connect.config.secrets import without_secrets
from connect.config.types import SecretStr
from connect.errors import ConnectError
from connect.log_fields import OwnedThread
from connect.plugin import Connector
from connectors.mirror.config.history_url import flow_history_url
from connectors.mirror.config.loss_policies import HISTORY_KEYS, RETENTION_KEY, URL_KEY
from connectors.mirror.config.permissions import not_permitted
from connectors.mirror.history.database import open_history, there_is
from connectors.mirror.history.rows import EventRow, FlowTask, flow_event

__all__ = [
    "FlowConnector",
    "changed_keys",
    "failure_event",
    "write_change",
    "write_command",
    "write_event",
    "write_failure",
]

log = logging.getLogger(__name__)

_HISTORY = ConfigDef(HISTORY_KEYS)
_LONGEST_CAUSE = 2000
"""Characters. A cause may quote a broker's whole answer."""
_FRAMES = re.compile(r"Traceback \(most recent call last\):")
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w+(?::|$))")


class FlowConnector(Connector):
    """A connector of a flow. Its failures, and those of its tasks, are events of the flow."""

    @classmethod
    def not_permitted(
        cls, config: Mapping[str, str], worker: Mapping[str, str]
    ) -> Sequence[ConfigProblem]:
        return not_permitted(config, worker)

    @classmethod
    def note_failure(
        cls, config: Mapping[str, str], connector: str, task: int | None, trace: str
    ) -> None:
        OwnedThread(
            lambda: write_failure(config, connector, task, trace), f"history of {connector}"
        ).start()


def write_event(url: SecretStr, retention_days: int, task: FlowTask, row: EventRow) -> None:
    """Write an event, and wait until it is written, two seconds at most. A history that cannot be
    opened gets none."""
    try:
        history = open_history(url, retention_days)
    except ConnectError as error:
        log.debug("The event is not in the history: %s", error)
        return
    if history is None:
        return
    history.add(task, row)
    history.close()


def write_failure(props: Mapping[str, str], connector: str, task: int | None, trace: str) -> None:
    """Write that a connector of a flow, or one of its tasks, has failed. `props`: the connector's;
    `trace`: of its status."""
    _write(props, connector, failure_event(connector, task, trace), task=task)


def failure_event(connector: str, task: int | None, trace: str) -> EventRow:
    """Return the event of a failed connector or task, with the cause from the end of its trace."""
    what, kind = (
        (f"Connector {connector}", "connector.failed")
        if task is None
        else (f"Task {task} of {connector}", "task.failed")
    )
    return flow_event(kind, "", without_secrets(f"{what} failed: {_cause(trace)}"))


def write_change(props: Mapping[str, str], connector: str, action: str, text: str) -> None:
    """Write that a connector with these properties got others from the operator's file."""
    _write(props, connector, flow_event("changed", action, without_secrets(text)))


def write_command(props: Mapping[str, str], kind: str, action: str, text: str) -> None:
    """Write that the operator changed the flow with these source connector's properties by a
    command. On a host where the flow has no history of its own, and none by URL, nothing is
    written: the mirror's other events would not be there."""
    event = flow_event(kind, action, without_secrets(f"{_operator()}: {text}"))
    _write(props, props.get("name", ""), event, only_if_there=True)


def _write(
    props: Mapping[str, str],
    connector: str,
    event: EventRow,
    *,
    task: int | None = None,
    only_if_there: bool = False,
) -> None:
    try:
        url, days = _place(props)
        if only_if_there and not there_is(url):
            return
    except ConnectError as error:
        log.debug("An event of %s is not in the history: %s", connector, error)
        return
    write_event(url, days, _task(props, connector, task), event)


def changed_keys(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return which keys of a config differ, in words. Values may be secret, so none are given."""
    parts = {
        "changed": [key for key in before.keys() & after.keys() if before[key] != after[key]],
        "added": after.keys() - before.keys(),
        "removed": before.keys() - after.keys(),
    }
    return "; ".join(f"{what} {', '.join(sorted(keys))}" for what, keys in parts.items() if keys)


def _operator() -> str:
    """Return the user who runs this program, and the host, in words."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        user = f"user {os.getuid()}"
    return f"{user} on {socket.gethostname()}"


def _place(props: Mapping[str, str]) -> tuple[SecretStr, int]:
    """Return URL and retention of the history of the flow with these connector properties. Raises
    `ConfigError`."""
    parsed = _HISTORY.parse(props)
    return flow_history_url(parsed.secret(URL_KEY), props), parsed.integer(RETENTION_KEY)


def _task(props: Mapping[str, str], connector: str, task: int | None) -> FlowTask:
    source, target = (
        props.get(f"{side}.cluster.alias", side).strip() for side in ("source", "target")
    )
    return FlowTask(connector, task or 0, source, target)


def _cause(trace: str) -> str:
    """Return the error at the end of a trace, without its frames and modules."""
    last = _FRAMES.split(trace)[-1].strip("\n").splitlines()
    while last and last[0].startswith(" "):
        del last[0]
    text = _MODULE.sub("", "\n".join(last).strip())
    return text[:_LONGEST_CAUSE] or "the cause is not known; see the worker's log"
