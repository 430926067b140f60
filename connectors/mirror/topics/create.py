"""Creates missing topics and partitions on the target, with the source's topic configs.

Configs are copied when a topic is created, except those that the target's Kafka version does not
know. A failure to create a topic or to add its partitions does not block other topics; failures are
returned.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from connect.clients.errors import broker_code, not_authorized
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigEntry, ConfigSource, TopicCreation
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.errors import ConfigError, ConnectError
from connect.protocol.error_codes import ErrorCode
from connectors.mirror.api_support import STORED_FORMAT
from connectors.mirror.filters import ConfigPropertyFilter
from connectors.mirror.topics.selection import Growth, MissingTopic, TopicPlan

__all__ = [
    "TopicFailure",
    "apply_plan",
    "copied_configs",
    "create_own_topic",
    "creation_configs",
    "ensure_compacted_topic",
    "with_remedy",
]

log = logging.getLogger(__name__)

PARALLEL_CALLS = 8
"""Number of requests at a time. A controller creates one topic after another, so this only hides
round trips."""

_REQUEST_TOPICS, _REQUEST_PARTITIONS = 100, 5_000
"""The most of a request. A KRaft controller refuses more than 10,000 partitions."""


COMPACTED = {"cleanup.policy": "compact"}
"""The topic config of the mirror's internal topics."""


@dataclass(frozen=True, slots=True)
class TopicFailure:
    """A topic that could not be created or enlarged, and the reason. `factor_key`: the property
    that sets its replication factor."""

    remote: str
    error: ConnectError
    factor_key: str = "replication.factor"

    def __str__(self) -> str:
        return with_remedy(self.error, self.factor_key)


def copied_configs(
    entries: Iterable[ConfigEntry], properties: ConfigPropertyFilter
) -> dict[str, str]:
    """Return the configs that a new topic copies from its source: those set on the topic, or
    dynamically on the brokers, that the filter selects. The source's defaults are copied only if
    the filter wants them."""
    return {
        entry.name: entry.value
        for entry in entries
        if entry.value is not None and _is_copied(entry, properties)
    }


def _is_copied(entry: ConfigEntry, properties: ConfigPropertyFilter) -> bool:
    if entry.read_only or entry.sensitive or entry.source == ConfigSource.STATIC_BROKER_CONFIG:
        return False
    # Copies are always written in the newest message format, whatever format the source stores.
    if entry.name == STORED_FORMAT:
        return False
    if not properties.should_replicate_config_property(entry.name):
        return False
    if entry.source == ConfigSource.DEFAULT_CONFIG:
        return properties.should_replicate_source_default(entry.name)
    return True


def creation_configs(
    source: Admin, missing: Iterable[MissingTopic], properties: ConfigPropertyFilter, timeout: float
) -> dict[str, dict[str, str]]:
    """Return the configs of topics to create, by their name on the source."""
    described = source.describe_topic_configs([topic.source for topic in missing], timeout)
    return {name: copied_configs(entries, properties) for name, entries in described.items()}


def apply_plan(
    plan: TopicPlan,
    target: Admin,
    configs: Mapping[str, Mapping[str, str]],
    replication_factor: int,
    timeout: float,
    threads: OneShotThreads,
) -> list[TopicFailure]:
    """Create and enlarge topics on the target, by a few requests at a time. Returns the failures.

    `configs`: by source name. `replication_factor` -1: the broker's default. `timeout`: seconds per
    request.
    """
    creation = _Creation(target, configs, replication_factor, timeout)
    calls: deque[Callable[[], list[TopicFailure]]] = deque(
        partial(creation.create, topics) for topics in _requests(plan.create)
    )
    calls.extend(partial(_grow, target, growth, timeout) for growth in plan.grow)
    longest = timeout * (len(plan.create) + len(plan.grow) + 1)
    futures = [
        threads.run(f"topic-creation-{index}", partial(_drain, calls))
        for index in range(min(PARALLEL_CALLS, len(calls)))
    ]
    return [failure for future in futures for failure in future.result(longest)]


def _requests(topics: Sequence[MissingTopic]) -> Iterator[list[MissingTopic]]:
    """Deal topics out to requests: few of them to each, so that all threads have work."""
    most = min(_REQUEST_TOPICS, -(-len(topics) // PARALLEL_CALLS))
    request: list[MissingTopic] = []
    partitions = 0
    for topic in topics:
        if request and (
            len(request) == most or partitions + topic.partitions > _REQUEST_PARTITIONS
        ):
            yield request
            request, partitions = [], 0
        request.append(topic)
        partitions += topic.partitions
    if request:
        yield request


def _drain(calls: deque[Callable[[], list[TopicFailure]]]) -> list[TopicFailure]:
    failures: list[TopicFailure] = []
    while True:
        try:
            call = calls.popleft()
        except IndexError:
            return failures
        failures += call()


class _Creation:
    """Creates the copies of one plan. Thread-safe."""

    def __init__(
        self,
        target: Admin,
        configs: Mapping[str, Mapping[str, str]],
        replication_factor: int,
        timeout: float,
    ) -> None:
        self._target = target
        self._configs = configs
        self._replication_factor = replication_factor
        self._timeout = timeout
        self._lock = threading.Lock()
        self._known: frozenset[str] | None = None

    def create(self, topics: Sequence[MissingTopic]) -> list[TopicFailure]:
        """Create copies by one request; those whose configs are refused, again with the configs
        that the target knows."""
        wanted = [
            TopicCreation(
                topic.remote,
                topic.partitions,
                self._replication_factor,
                self._configs.get(topic.source, {}),
            )
            for topic in topics
        ]
        try:
            outcomes = self._target.create_topics(wanted, self._timeout)
        except ConnectError as error:
            return [TopicFailure(topic.remote, error) for topic in topics]
        failures = [self._ended(each, outcomes[each.name]) for each in wanted]
        return [failure for failure in failures if failure is not None]

    def _ended(self, topic: TopicCreation, outcome: bool | ConnectError) -> TopicFailure | None:
        try:
            if isinstance(outcome, ConnectError):
                outcome = self._create_with_known(topic, outcome)
        except ConnectError as error:
            return TopicFailure(topic.name, error)
        if outcome:
            log.info("Created topic %s with %d partitions", topic.name, topic.partitions)
        return None

    def _create_with_known(self, topic: TopicCreation, error: ConnectError) -> bool:
        """Create a topic with the configs that the target knows. Raises `error` if that would not
        help."""
        known = self._known_of(topic.configs, error)
        if known is None:
            raise error
        created = self._target.create_topic(
            topic.name, topic.partitions, topic.replication_factor, known, self._timeout
        )
        log.warning(
            "Created topic %s without %s: the target's Kafka version does not know "
            "this config. Nothing has to be done, or exclude it by "
            "config.properties.exclude",
            topic.name,
            ", ".join(sorted(topic.configs.keys() - known.keys())),
        )
        return created

    def _known_of(
        self, configs: Mapping[str, str], error: ConnectError
    ) -> Mapping[str, str] | None:
        """Return the configs whose names the target knows; None if another attempt with them would
        not help.
        """
        if broker_code(error) != ErrorCode.INVALID_CONFIG or not configs:
            return None
        names = self._names()
        known = {name: value for name, value in configs.items() if name in names}
        return known if names and len(known) < len(configs) else None

    def _names(self) -> frozenset[str]:
        """Return the names of topic configs that the target knows, read from one of its topics.
        Empty if we may describe no topic."""
        with self._lock:
            if self._known is None:
                self._known = self._learned_names()
            return self._known

    def _learned_names(self) -> frozenset[str]:
        try:
            for topic in sorted(self._target.list_topics(self._timeout)):
                described = self._target.describe_topic_configs(
                    [topic], self._timeout, missing_ok=True
                )
                if topic in described:
                    return frozenset(entry.name for entry in described[topic])
        except ConnectError as error:
            log.warning("Cannot find out which topic configs the target knows: %s", error)
        return frozenset()


def _grow(target: Admin, growth: Growth, timeout: float) -> list[TopicFailure]:
    try:
        target.create_partitions(growth.remote, growth.wanted, timeout)
    except ConnectError as error:
        return [TopicFailure(growth.remote, error)]
    log.info(
        "Increased topic %s from %d to %d partitions", growth.remote, growth.existing, growth.wanted
    )
    return []


def _is_there(admin: Admin, name: str, timeout: float) -> bool:
    try:
        return name in admin.describe_topics([name], timeout)
    except ConnectError as error:
        if not_authorized(error):
            return False
        raise


def with_remedy(error: ConnectError, factor_key: str) -> str:
    """Return the error's text. If the replication factor was too high, add the remedy."""
    if broker_code(error) == ErrorCode.INVALID_REPLICATION_FACTOR:
        return f"{str(error).rstrip('.')}. Start more brokers, or lower {factor_key}"
    return str(error)


def ensure_compacted_topic(
    admin: Admin, name: str, replication_factor: int, timeout: float
) -> bool:
    """Create one of the mirror's internal topics: one partition, compacted. Returns False if it
    existed.

    Without permission to create topics, an existing one is used, as in MirrorMaker 2.
    """
    try:
        created = admin.create_topic(name, 1, replication_factor, COMPACTED, timeout)
    except ConnectError as error:
        if not not_authorized(error) or not _is_there(admin, name, timeout):
            raise
        created = False
    if created:
        log.info("Created internal topic %s", name)
    return created


def create_own_topic(admin: Admin, name: str, factor: int, factor_key: str, timeout: float) -> None:
    """Like `ensure_compacted_topic`, and close the client. Raises retriable errors and
    `ConfigError`; others are logged, because the topic may exist all the same."""
    try:
        ensure_compacted_topic(admin, name, factor, timeout)
    except ConnectError as error:
        if error.retriable or isinstance(error, ConfigError):
            raise
        log.error("Cannot create topic %s: %s", name, with_remedy(error, factor_key))
    finally:
        admin.close()
