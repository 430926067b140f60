"""Looks up one flow of an mm2.properties file, for commands and jobs outside the mirror process."""

from __future__ import annotations

from collections.abc import Sequence
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

__all__ = ["copying_plans", "is_flow", "load_file", "named_flow"]


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


def copying_plans(
    config: MirrorMakerConfig, name: str | None, option: str = "--flow"
) -> list[FlowPlan]:
    """Return the flows of a file that copy; with a name `A->B` or `A:B` only that one. `option`:
    what the user names it with. Raises `ConfigError`, also if there is none."""
    plans = [plan for plan in plan_flows(config) if mirrors(plan)]
    wanted = [plan for plan in plans if name is None or is_flow(plan, name)]
    if not wanted:
        raise _wrong_name(plans, name, option)
    return wanted


def _wrong_name(plans: Sequence[FlowPlan], name: str | None, option: str) -> ConfigError:
    names = ", ".join(plan.name for plan in plans) or "none"
    given = "not given" if name is None else name
    # A shell takes an unquoted > for a redirection, so that the name ends before it.
    hint = ". Write A:B, or quote 'A->B'" if name is not None and name.endswith("-") else ""
    return ConfigError(
        f"Invalid value for {option}: {given}. Flows that copy: {names}{hint}", key=option
    )


def named_flow(path: Path, name: str | None, option: str = "--flow") -> DedicatedFlow:
    """Return the flow `A->B` (or `A:B`) of a file; without a name, the only flow that copies.
    `option`: what the user names it with. Raises `ConfigError`."""
    config = load_file(path)
    wanted = copying_plans(config, name, option)
    flow_plugins(config, wanted)
    if len(wanted) != 1:
        raise _wrong_name(wanted, name, option)
    plan = wanted[0]
    worker = config.worker_config(plan.source, plan.target)
    spark = {key: value for key, value in worker.items() if key.startswith("spark.")}
    return DedicatedFlow(
        plan.name,
        {**spark, **resolved_source_config(config, plan)},
        WorkerConfig.from_properties(worker),
    )
