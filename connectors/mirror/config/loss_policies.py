"""The keys that set how losses are handled and where they are recorded. Not keys of MirrorMaker
2."""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance, ParsedConfig
from connect.config.types import ConfigType
from connect.config.validators import OneOf, OrNull, Range
from connectors.mirror.config.losses import LossKind, LossPolicies, LossPolicy

__all__ = ["HISTORY_KEYS", "HISTORY_OFF", "LOSS_KEYS", "RETENTION_KEY", "URL_KEY", "loss_policies"]

URL_KEY = "mirror.history.url"
RETENTION_KEY = "mirror.history.retention.days"
HISTORY_OFF = "none"

_POLICY = "mirror.loss.policy"
_VALUES = tuple(policy.value for policy in LossPolicy)

_TEXTS = {
    LossKind.RETENTION: (
        "The source deleted records before they were copied. `report` and `copy`: continue as "
        "auto.offset.reset says, by default at the log start."
    ),
    LossKind.TRUNCATION: (
        "The source's log was truncated before the fetch position (unclean leader election). "
        "`report`: continue where the logs diverge, or at the log start if that is not known; "
        "`copy`: continue at the log start."
    ),
    LossKind.SOURCE_RECREATED: (
        "The topic was deleted and re-created on the source. `report` and `copy`: copy the new "
        "topic from its first record."
    ),
    LossKind.TARGET_RECREATED: (
        "The topic was deleted and re-created on the target. `report`: continue with the next "
        "record; `copy`: copy everything again that the source still has."
    ),
    LossKind.TARGET_LOSS: (
        "The target's log ends before an offset that it had acknowledged. `report`: continue "
        "with the next record; `copy`: copy the missing records again."
    ),
}

HISTORY_KEYS = (
    ConfigKey(
        URL_KEY,
        ConfigType.PASSWORD,
        None,
        None,
        Importance.MEDIUM,
        "SQLAlchemy URL of the database that keeps the history of losses, copied ranges and lag, "
        "such as `postgresql+psycopg://user:password@host/database`; `none`: no history. The "
        "default is an SQLite file of the flow, `history-<source>-<target>-<digest of bootstrap "
        "servers>.db`, in `connect-mirror` in the user's state directory. "
        "Not a key of MirrorMaker 2.",
    ),
    ConfigKey(
        RETENTION_KEY,
        ConfigType.INT,
        7,
        Range(1, 3650),
        Importance.LOW,
        "How many days the history is kept, older rows merged by minutes, hours and days. "
        "Not a key of MirrorMaker 2.",
    ),
)

LOSS_KEYS = (
    ConfigKey(
        "mirror.quarantine.topic",
        ConfigType.STRING,
        None,
        None,
        Importance.MEDIUM,
        "Topic on the target for records that the target rejects (for example because they are "
        "too large) and for batches that cannot be read. Headers hold their origin and the "
        "reason, and the partition continues. Without this key, the partition stops until the "
        "cause is removed. Not a key of MirrorMaker 2.",
    ),
    *HISTORY_KEYS,
    ConfigKey(
        _POLICY,
        ConfigType.STRING,
        LossPolicy.REPORT.value,
        OneOf(_VALUES),
        Importance.MEDIUM,
        "How a partition continues after either cluster lost some of its records, or its topic "
        "was re-created: `fail` (only that partition stops), `report` (continue) or `copy` (copy "
        "again). The loss is always logged, counted and written to the history. Not a key of "
        "MirrorMaker 2.",
    ),
    *(
        ConfigKey(
            f"{_POLICY}.{kind.value}",
            ConfigType.STRING,
            None,
            OrNull(OneOf(_VALUES)),
            Importance.LOW,
            f"{text} The default is the value of {_POLICY}. Not a key of MirrorMaker 2.",
        )
        for kind, text in _TEXTS.items()
    ),
)


def loss_policies(parsed: ParsedConfig) -> LossPolicies:
    """Return the policies that a connector's parsed properties set."""
    chosen = {kind: parsed.optional_string(f"{_POLICY}.{kind.value}") for kind in LossKind}
    return LossPolicies(
        LossPolicy(parsed.string(_POLICY)),
        {kind: LossPolicy(value) for kind, value in chosen.items() if value is not None},
    )
