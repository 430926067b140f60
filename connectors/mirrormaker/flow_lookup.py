"""Looks up one flow of an mm2.properties file, for commands and jobs outside the mirror process."""

from __future__ import annotations

from pathlib import Path

from connect.config.worker import WorkerConfig
from connect.errors import ConfigError
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import (
    flow_plugins,
    mirrors,
    plan_flows,
    resolved_source_config,
)
from connectors.mirrormaker.mirror_flow import FlowPlan

__all__ = ["is_flow", "load_file", "named_flow"]


def load_file(path: Path) -> MirrorMakerConfig:
    """Read an mm2.properties file. Raises `ConfigError`, also if it cannot be read."""
    try:
        return MirrorMakerConfig.from_file(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot read the configuration file {path}: {reason}") from error


def is_flow(plan: FlowPlan, name: str) -> bool:
    """Whether a user's `A->B` or `A:B` names this flow. `A:B` needs no quotes in a shell."""
    return name.replace(" ", "") in (plan.name, f"{plan.source}:{plan.target}")


def named_flow(path: Path, name: str | None, option: str = "--flow") -> DedicatedFlow:
    """Return the flow `A->B` (or `A:B`) of a file; without a name, the only flow that copies.
    `option`: what the user names it with. Raises `ConfigError`."""
    config = load_file(path)
    plans = [plan for plan in plan_flows(config) if mirrors(plan)]
    flow_plugins(config, plans)
    wanted = [plan for plan in plans if name is None or is_flow(plan, name)]
    if len(wanted) != 1:
        names = ", ".join(plan.name for plan in plans) or "none"
        given = "not given" if name is None else name
        # A shell takes an unquoted > for a redirection, so that the name ends before it.
        hint = ". Write A:B, or quote 'A->B'" if name is not None and name.endswith("-") else ""
        raise ConfigError(
            f"Invalid value for {option}: {given}. Flows that copy: {names}{hint}", key=option
        )
    plan = wanted[0]
    worker = config.worker_config(plan.source, plan.target)
    spark = {key: value for key, value in worker.items() if key.startswith("spark.")}
    return DedicatedFlow(
        plan.name,
        {**spark, **resolved_source_config(config, plan)},
        WorkerConfig.from_properties(worker),
    )
