"""Why a topic is not mirrored or lags, and why a consumer group is not ready to move: the decisions
of a flow in their order, each with the key that decided it.

The same code decides here as in a running flow: filters, policy, offset translation. It only reads.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.precedence import Flow, Setting

__all__ = ["Explanation", "Step", "Verdict", "deciding_key", "enabled_step"]


class Verdict(Enum):
    """STOP: this is the reason, later steps do not matter. WARN: works, but not as wanted."""

    OK = "ok"
    WARN = "warning"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Step:
    """One decision. `key` and `line`: what decided it in the file, if a key did; a line of None is
    a default. `remedy`: what to do, if something is wrong."""

    question: str
    verdict: Verdict
    answer: str
    key: str | None = None
    line: int | None = None
    remedy: str = ""


@dataclass(slots=True)
class Explanation:
    """The steps for one topic or group in one flow, up to the one that stops it."""

    subject: str
    kind: str
    flow: str
    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step) -> bool:
        """Add a step. Returns whether the explanation goes on."""
        self.steps.append(step)
        return step.verdict is not Verdict.STOP

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict of the steps."""
        found = {step.verdict for step in self.steps}
        return next(each for each in (Verdict.STOP, Verdict.WARN, Verdict.OK) if each in found)

    def document(self) -> dict[str, Any]:
        """Return plain values for JSON and YAML."""
        return {
            "subject": self.subject,
            "kind": self.kind,
            "flow": self.flow,
            "verdict": self.verdict.value,
            "steps": [{**asdict(step), "verdict": step.verdict.value} for step in self.steps],
        }


def deciding_key(
    config: MirrorMakerConfig, flow: Flow, connector: str, key: str
) -> tuple[str, int | None]:
    """Return the key as written in the file that sets a connector's `key`, and its line; the key
    itself without a line if its default counts."""
    setting = config.effective_connector(*flow, connector).get(key, Setting(""))
    return (setting.key or key, setting.line)


def enabled_step(config: MirrorMakerConfig, flow: Flow) -> Step:
    """Say whether the flow is enabled."""
    key, line = deciding_key(config, flow, "MirrorSourceConnector", "enabled")
    question = f"Is the flow {flow} enabled?"
    if config.mirrors(flow):
        return Step(question, Verdict.OK, "yes", key, line)
    key = key if line is not None else f"{flow}.enabled"
    return Step(question, Verdict.STOP, "no", key, line, f"Set {flow}.enabled=true and restart")
