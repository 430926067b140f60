"""Checks of a source connector's config that requires exactly-once (KIP-618).

The texts are Java's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from connect.config.definition import ConfigProblem
from connect.plugin import Connector

__all__ = ["exactly_once_problems"]

_log = logging.getLogger(__name__)


_SUPPORT, _BOUNDARY = "exactly.once.support", "transaction.boundary"


def exactly_once_problems(
    connector: type[Connector], config: Mapping[str, str], *, enabled: bool
) -> list[ConfigProblem]:
    """Return the problems. `enabled`: whether this worker's source tasks write exactly once.

    Other checks report values that are not allowed.
    """
    problems = []
    if config.get(_SUPPORT, "").strip().lower() == "required":
        if not enabled:
            text = "This worker does not have exactly-once source support enabled."
            problems.append(ConfigProblem(_SUPPORT, text))
        refusal = _asked("exactly-once semantics", lambda: _support_problem(connector, config))
        if refusal is not None:
            problems.append(ConfigProblem(_SUPPORT, refusal))
    if config.get(_BOUNDARY, "").strip().lower() == "connector":
        refusal = _asked(
            "defining its own transaction boundaries", lambda: _boundary_problem(connector, config)
        )
        if refusal is not None:
            problems.append(ConfigProblem(_BOUNDARY, refusal))
    return problems


def _support_problem(connector: type[Connector], config: Mapping[str, str]) -> str | None:
    supported = connector.exactly_once_support(config)
    if supported is None:
        return (
            "The connector does not implement the API required for preflight validation of"
            " exactly-once source support. Please consult the documentation for the connector to"
            " determine whether it supports exactly-once semantics, and then consider reconfiguring"
            ' the connector to use the value "requested" for this property (which will disable this'
            " preflight check and allow the connector to be created)."
        )
    if not supported:
        return (
            "The connector does not support exactly-once semantics with the provided configuration."
        )
    return None


def _boundary_problem(connector: type[Connector], config: Mapping[str, str]) -> str | None:
    if connector.can_define_transaction_boundaries(config):
        return None
    return (
        "The connector does not support connector-defined transaction boundaries with the given"
        " configuration. Please reconfigure it to use a different transaction boundary definition."
    )


def _asked(about: str, ask: Callable[[], str | None]) -> str | None:
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - plugin code; the answer tells
        _log.exception(
            "Failed while validating connector support for %s; this is a defect of "
            "the plugin: report it to its author, with the trace",
            about,
        )
        told = str(error).strip()
        if told:
            return f"An unexpected error occurred during validation: {told}"
        return (
            "An unexpected error occurred during validation; please see the worker logs for more"
            " details."
        )
