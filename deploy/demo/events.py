"""The topics of the demo and their events.

Every event contains its number, so no two are equal and a comparison is meaningful. Values are JSON
strings made by formatting, because a JSON encoder would limit the producer.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect.errors import ConfigError

__all__ = [
    "BACKLOG_VARIABLE",
    "TOPICS",
    "DemoTopic",
    "Event",
    "backlog_share",
    "mean_event_bytes",
    "topic_named",
]

BACKLOG_VARIABLE = "DEMO_BACKLOG"
"""Environment variable: the share of the backlog that is produced, 0.2 for a fifth of it."""

Event = tuple[bytes | None, bytes]
"""(key, value)."""

_SAMPLE = 500
_SEED = 20


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """One topic. `backlog`: number of records produced before the mirror starts. `rate`: records
    per second afterwards.

    `gapless`: source offsets have no gaps, so the copy's offsets equal the source's. Transactions
    (markers, aborted records) and compaction leave gaps.
    """

    name: str
    partitions: int
    kind: str
    compression: str
    backlog: int
    rate: int
    make: Callable[[int, random.Random], Event]
    configs: Mapping[str, str] = field(default_factory=dict)
    transactional: bool = False

    @property
    def compacted(self) -> bool:
        return "compact" in self.configs.get("cleanup.policy", "")

    @property
    def gapless(self) -> bool:
        return not (self.transactional or self.compacted)

    @property
    def partition_keys(self) -> list[tuple[str, int]]:
        return [(self.name, number) for number in range(self.partitions)]


_CITIES = ("Paris", "Tokyo", "Lagos", "Lima", "Oslo", "Pune", "Quito", "Perth")
_ITEMS = ("kettle", "lamp", "bicycle", "novel", "headphones", "raincoat", "teapot", "desk")
_PAGES = ("/", "/search", "/basket", "/checkout", "/help", "/account/orders", "/item/2041")
_AGENTS = ("Firefox/145.0", "Chrome/142.0", "Safari/18.6", "Edge/142.0")
_SERVICES = ("gateway", "basket", "billing", "search", "mail")
_LEVELS = ("INFO", "INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR")
_TEXTS = (
    "request served",
    "cache refreshed from the primary",
    "connection pool grew",
    "slow query on table shipments, plan changed since the last analyze",
    "retrying after the upstream closed the connection",
)
_USERS = 4_000


def _order(number: int, dice: random.Random) -> Event:
    customer = dice.randrange(_USERS)
    price = dice.randrange(199, 99_999)
    value = (
        f'{{"event":"order_placed","order":{number},"customer":{customer},'
        f'"city":"{dice.choice(_CITIES)}","items":[{{"name":"{dice.choice(_ITEMS)}",'
        f'"quantity":{dice.randrange(1, 5)},"price_cents":{price}}}],'
        f'"total_cents":{price},"currency":"EUR","voucher":null,"gift":false}}'
    )
    return b"customer-%d" % customer, value.encode()


def _click(number: int, dice: random.Random) -> Event:
    user = dice.randrange(_USERS)
    value = (
        f'{{"event":"page_view","id":{number},"user":{user},"session":"{dice.getrandbits(64):016x}",'
        f'"page":"{dice.choice(_PAGES)}","referrer":"{dice.choice(_PAGES)}",'
        f'"agent":"{dice.choice(_AGENTS)}","city":"{dice.choice(_CITIES)}",'
        f'"viewport":[1440,900],"load_ms":{dice.randrange(40, 2_500)}}}'
    )
    return b"user-%d" % user, value.encode()


def _payment(number: int, dice: random.Random) -> Event:
    account = dice.randrange(_USERS)
    value = (
        f'{{"event":"payment","payment":{number},"account":{account},'
        f'"amount_cents":{dice.randrange(199, 99_999)},"currency":"EUR","method":"card",'
        f'"authorisation":"{dice.getrandbits(48):012x}","captured":true}}'
    )
    return b"account-%d" % account, value.encode()


def _user(number: int, dice: random.Random) -> Event:
    user = dice.randrange(_USERS)
    value = (
        f'{{"user":{user},"revision":{number},"city":"{dice.choice(_CITIES)}",'
        f'"newsletter":{dice.choice(("true", "false"))},"language":"fr",'
        f'"points":{dice.randrange(10_000)}}}'
    )
    return b"user-%d" % user, value.encode()


def _log(number: int, dice: random.Random) -> Event:
    value = (
        f'{{"level":"{dice.choice(_LEVELS)}","service":"{dice.choice(_SERVICES)}",'
        f'"host":"node-{dice.randrange(24)}","line":{number},"message":"{dice.choice(_TEXTS)}",'
        f'"trace":"{dice.getrandbits(64):016x}","took_ms":{dice.randrange(900)}}}'
    )
    return None, value.encode()


_ALL: Sequence[DemoTopic] = (
    DemoTopic("orders", 6, "lz4", "lz4", 180_000, 600, _order),
    DemoTopic("clicks", 4, "zstd", "zstd", 300_000, 1_200, _click),
    DemoTopic("logs", 4, "uncompressed", "none", 180_000, 800, _log),
    DemoTopic("payments", 3, "transactions", "none", 20_000, 100, _payment, transactional=True),
    DemoTopic(
        "users",
        2,
        "compacted",
        "snappy",
        30_000,
        40,
        _user,
        # Small segments and short delays, so that compaction happens during the demo.
        {
            "cleanup.policy": "compact",
            "segment.bytes": str(1024 * 1024),
            "min.cleanable.dirty.ratio": "0.1",
        },
    ),
)


def backlog_share(text: str | None) -> float:
    """Parse the share of the backlog to produce; None: all of it. Raises `ConfigError`."""
    if text is None or not text.strip():
        return 1.0
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ConfigError(
            f"Invalid value {text} for {BACKLOG_VARIABLE}: use a number above 0 and up to 1, or "
            "unset it for the whole backlog",
            key=BACKLOG_VARIABLE,
            value=text,
        )
    return share


_SHARE = backlog_share(os.environ.get(BACKLOG_VARIABLE))
TOPICS: Sequence[DemoTopic] = tuple(
    replace(topic, backlog=max(1, int(topic.backlog * _SHARE))) for topic in _ALL
)


def topic_named(name: str) -> DemoTopic:
    return next(topic for topic in TOPICS if topic.name == name)


def mean_event_bytes(topic: DemoTopic) -> float:
    """Return the mean size of key and value, uncompressed, over a sample."""
    dice = random.Random(_SEED)
    events = (topic.make(number, dice) for number in range(_SAMPLE))
    return sum(len(key or b"") + len(value) for key, value in events) / _SAMPLE
