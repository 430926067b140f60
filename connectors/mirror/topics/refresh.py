"""Finds the topics that a flow copies and creates their copies on the target, periodically.

One loop with its own thread. At start, then every `refresh.topics.interval.seconds`, it lists the
topics of both clusters, creates missing ones on the target, and notifies the connector if its
partitions changed. The first round also creates the mirror's internal topics and compares the
cluster IDs. Cluster failures are logged and retried. Only an invalid config ends the loop.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from connect.clients.errors import not_authorized
from connect.clients.wire.api_versions import broker_apis
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import Deadline
from connect.errors import (
    BrokerError,
    ConfigError,
    ConnectError,
    RetriableError,
)
from connect.protocol.error_codes import ErrorCode
from connectors.mirror.api_support import STORED_FORMAT, Side, format_refusal, refusal
from connectors.mirror.background.cluster_loop import STOP_TIMEOUT_S, cluster_loop
from connectors.mirror.background.status_messages import StatusMessages
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.source import SOURCE_CONFIG_DEF, SourceConfig
from connectors.mirror.filters import PatternList, config_property_filter
from connectors.mirror.replication_policy import offset_topics
from connectors.mirror.topics.clusters import (
    CONTACT_TIMEOUT_S,
    GRACE_S,
    Clusters,
    contact,
    internal_topics,
    topic_selector,
)
from connectors.mirror.topics.create import (
    TopicFailure,
    apply_plan,
    creation_configs,
    ensure_compacted_topic,
)
from connectors.mirror.topics.empty_listings import EmptyListings
from connectors.mirror.topics.forwarding_admin import forwarding_admin
from connectors.mirror.topics.provenance_topic import FlowTopics, Provenance
from connectors.mirror.topics.refresh_messages import (
    failures_in_words,
    hidden_in_words,
    named,
    refused_in_words,
    without_heartbeats,
)
from connectors.mirror.topics.selection import (
    Selection,
    TopicPartition,
    partitions_of,
    plan_topics,
)

__all__ = ["TopicRefresh"]

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 15.0
"""How soon a flow without topics looks for topics again. Flows are often started while their topics
are being created, and the normal interval is 10 minutes."""

CERTAIN_S = 2.0
"""How soon a flow looks again whether topics that wait came from its target."""

OWN_FACTOR_KEY = "offset-syncs.topic.replication.factor"


def without_map(error: ConnectError) -> str:
    """Explain a missing offset map. MirrorMaker 2 needs no permissions for it, so without them the
    flow still works."""
    return (
        "cannot create the offset map, so group offsets are translated only as precisely as by "
        f"MirrorMaker 2: {error}. Grant the permission, or set mirror.offset.map.enabled=false"
    )


class TopicRefresh:
    """The loop of one flow. The owner calls `start` and `stop` once each. Any thread may read
    `partitions`. The callbacks run on the loop's thread."""

    def __init__(
        self,
        config: SourceConfig,
        *,
        on_change: Callable[[], None],
        on_failure: Callable[[Exception], None],
        on_trouble: Callable[[str | None], None],
        before: Collection[TopicPartition] = (),
    ) -> None:
        """`on_change`: the partitions changed. `on_failure`: an invalid config ended the loop.
        `on_trouble`: the current problem, or None once it is resolved. `before`: the partitions of
        an earlier run of the connector. Raises `ConfigError`."""
        self._config = config
        self._before = before
        self._flow = config.flow
        self._timeout = config.admin_timeout_ms / 1000
        self._selector = topic_selector(config)
        self._properties = config_property_filter(config.originals)
        patterns = PatternList.from_key(SOURCE_CONFIG_DEF, "topics", config.originals)
        self._literal_topics = patterns.literals()
        self._on_change = on_change
        self._partitions: list[TopicPartition] | None = None
        self._clusters: Clusters | None = None
        self._threads = OneShotThreads(f"topic-refresh-{self._flow}")
        self._provenance = Provenance(config)
        self._own_topics_ready = self._told_of_map = self._told_of_heartbeats = False
        self._old_target = False
        self._told_refused: str | None = None
        self._told_hidden: str | None = None
        self._empty_source = EmptyListings(config.source_cluster_alias)
        self._failures: dict[str, str] = {}
        troubles = StatusMessages(on_trouble)
        self._topics_in_trouble = troubles.part("topics")
        self._hidden_in_trouble = troubles.part("hidden")
        self._refused_in_trouble = troubles.part("refused")
        self._loop = cluster_loop(
            f"Topic refresh of {self._flow}",
            self._step,
            config.refresh_topics_interval_s,
            on_failure,
            on_trouble=troubles.part("loop"),
        )

    @property
    def partitions(self) -> list[TopicPartition] | None:
        """Return the source partitions that are copied; None before the first result."""
        return self._partitions

    @property
    def clusters(self) -> Clusters | None:
        """Return the connections of this loop; None until both clusters were reached."""
        return self._clusters

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._threads.stop()
        self._loop.request_stop()
        self._loop.stop(STOP_TIMEOUT_S)
        if self._clusters is not None:
            self._clusters.close()

    def _step(self) -> None:
        clusters = self._clusters or self._connect()
        run, timeout, grace = self._threads.run, self._timeout, self._timeout + GRACE_S
        own_topics = run("own-topics", partial(self._create_own_topics, clusters))
        source = run("list-source", partial(clusters.source.list_topics, timeout))
        target = run("list-target", partial(clusters.target.list_topics, timeout))
        listed = source.result(grace)
        known = {topic for topic, _ in self._partitions or self._before}
        topics = FlowTopics(
            (clusters.source, clusters.source_id),
            (clusters.target, clusters.target_id),
            clusters.selector,
            clusters.selector.select(listed, known),
        )
        selection = self._provenance.check(topics, known)
        self._report_refused(selection)
        failures = self._create_copies(clusters, selection, target.result(grace))
        failures += own_topics.result(2 * grace)
        failures += self._formats_refused(clusters, selection)
        self._report(failures)
        self._empty_source.check(listed)
        if self._provenance.waits:
            self._loop.hurry(CERTAIN_S)
        elif not selection.copied and self._config.refresh_topics_interval_s is not None:
            self._loop.hurry(LOOK_AGAIN_S)
        hidden = self._hidden(clusters, listed)
        self._publish(replace(selection, copied={**selection.copied, **hidden}))
        waiting = [failure for failure in failures if failure.error.retriable]
        if waiting:
            raise RetriableError(
                f"{len(waiting)} topics are not ready yet, for example {waiting[0].remote}: "
                f"{waiting[0].error}"
            )

    def _connect(self) -> Clusters:
        config = self._config
        source_props = client_configs.source_admin(config.originals)
        target_props = client_configs.target_admin(config.originals)
        source = forwarding_admin(config.originals, source_props)
        target = forwarding_admin(config.originals, target_props)
        reached = False
        try:
            ids = [
                self._threads.run(
                    f"contact-{alias}", partial(contact, admin, alias, props, CONTACT_TIMEOUT_S)
                )
                for admin, alias, props in (
                    (source, config.source_cluster_alias, source_props),
                    (target, config.target_cluster_alias, target_props),
                )
            ]
            source_id, target_id = (found.result(CONTACT_TIMEOUT_S + GRACE_S) for found in ids)
            same = source_id == target_id
            self._check_versions(source_props, target_props)
            reached = True
        finally:
            if not reached:
                source.close()
                target.close()
        if same:
            log.warning(
                "%s: source and target are the same cluster; topics that were copied from either "
                "alias are not copied again",
                self._flow,
            )
        selector = replace(self._selector, same_cluster=same)
        self._clusters = Clusters(source, target, selector, source_id, target_id)
        return self._clusters

    def _check_versions(
        self, source_props: Mapping[str, str], target_props: Mapping[str, str]
    ) -> None:
        """Raise `ConfigError` if a cluster's brokers are not supported. Then nothing is copied."""
        sides: tuple[tuple[Side, str, Mapping[str, str]], ...] = (
            ("source", self._config.source_cluster_alias, source_props),
            ("target", self._config.target_cluster_alias, target_props),
        )
        asked = [
            self._threads.run(
                f"versions-{alias}", partial(broker_apis, props, Deadline(CONTACT_TIMEOUT_S))
            )
            for _, alias, props in sides
        ]
        for (side, alias, _), answer in zip(sides, asked, strict=True):
            apis = answer.result(CONTACT_TIMEOUT_S + GRACE_S)
            refused = refusal(alias, side, apis)
            if refused is not None:
                raise ConfigError(refused, key=f"{side}.cluster.bootstrap.servers")
            self._old_target = apis.before_3_0  # The target comes last.

    def _create_own_topics(self, clusters: Clusters) -> list[TopicFailure]:
        if self._own_topics_ready:
            return []
        on_source = client_configs.offset_syncs_side(self._config.originals) == "source"
        admin = clusters.source if on_source else clusters.target
        failures = []
        self._own_topics_ready = True
        for name, factor in internal_topics(self._config).items():
            try:
                ensure_compacted_topic(admin, name, factor, self._timeout)
            except ConnectError as error:
                self._own_topics_ready = False
                is_map = name == offset_topics(self._config.originals).map
                if not (is_map and not_authorized(error)):
                    failures.append(TopicFailure(name, error, OWN_FACTOR_KEY))
                elif not self._told_of_map:
                    self._told_of_map = True
                    log.warning("%s: %s", self._flow, without_map(error))
        return failures

    def _create_copies(
        self, clusters: Clusters, selection: Selection, target_topics: Mapping[str, int]
    ) -> list[TopicFailure]:
        plan = plan_topics(selection.copied, target_topics, clusters.selector)
        if not plan:
            return []
        configs = creation_configs(clusters.source, plan.create, self._properties, self._timeout)
        factor = self._config.replication_factor
        return apply_plan(plan, clusters.target, configs, factor, self._timeout, self._threads)

    def _formats_refused(self, clusters: Clusters, selection: Selection) -> list[TopicFailure]:
        """Return the copies on an old target whose message format cannot hold them."""
        if not self._old_target:
            return []
        copies = [clusters.selector.remote(topic) for topic in selection.copied]
        try:
            described = clusters.target.describe_topic_configs(
                copies, self._timeout, missing_ok=True
            )
        except BrokerError as error:
            # The principal may lack permission to describe configs. Then the first batch shows it.
            log.warning("%s: cannot check the message formats of the copies: %s", self._flow, error)
            self._old_target = False
            return []
        refused = {
            remote: format_refusal(entry.value)
            for remote, entries in described.items()
            for entry in entries
            if entry.name == STORED_FORMAT
        }
        return [
            TopicFailure(
                remote, BrokerError(f"it {text}", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
            )
            for remote, text in refused.items()
            if text is not None
        ]

    def _hidden(self, clusters: Clusters, listed: Mapping[str, int]) -> dict[str, int]:
        """Return mirrored topics that are no longer listed because of missing permissions. The
        tasks keep them, because to drop them would look like a deletion."""
        known = Counter(topic for topic, _ in self._partitions or self._before)
        missing = [
            topic
            for topic in known
            if topic not in listed and clusters.selector.skip(topic) is None
        ]
        hidden = sorted(clusters.source.forbidden_topics(missing, self._timeout))
        unseen = [
            topic
            for topic in self._literal_topics
            if topic not in listed and topic not in known and clusters.selector.skip(topic) is None
        ]
        unseen = sorted(clusters.source.forbidden_topics(unseen, self._timeout))
        self._report_hidden(hidden_in_words(hidden, unseen))
        self._look_for_heartbeats(clusters, listed)
        gone = sorted(set(missing) - set(hidden))
        if gone:
            log.warning(
                "%s: topics deleted on the source, mirroring of them ends; nothing has to"
                " be done, their copies stay: %s",
                self._flow,
                named(gone),
            )
        return {topic: known[topic] for topic in hidden}

    def _look_for_heartbeats(self, clusters: Clusters, listed: Mapping[str, int]) -> None:
        """Tell once that the source does not let us describe its heartbeats. MirrorMaker 2 copies
        without them, too."""
        beats = clusters.selector.policy.heartbeats_topic()
        wanted = self._config.heartbeats_replication_enabled and beats not in listed
        if not wanted or self._told_of_heartbeats:
            return
        if clusters.source.forbidden_topics([beats], self._timeout):
            self._told_of_heartbeats = True
            log.warning("%s: %s", self._flow, without_heartbeats(beats))

    def _report(self, failures: Sequence[TopicFailure]) -> None:
        """Log each failure when it is new or has changed, and when it is resolved: as a warning
        if it is tried again soon."""
        current = {failure.remote: str(failure) for failure in failures}
        for failure in failures:
            remote, message = failure.remote, current[failure.remote]
            if self._failures.get(remote) != message:
                level = logging.WARNING if failure.error.retriable else logging.ERROR
                log.log(level, "%s: topic %s is not ready: %s", self._flow, remote, message)
        for remote in self._failures.keys() - current.keys():
            log.info("%s: topic %s is ready now", self._flow, remote)
        self._failures = current
        self._topics_in_trouble(failures_in_words(current))

    def _report_refused(self, selection: Selection) -> None:
        text = refused_in_words(selection.skipped)
        if text is not None and text != self._told_refused:
            log.warning("%s: %s", self._flow, text)
        self._told_refused = text
        self._refused_in_trouble(text)

    def _report_hidden(self, text: str | None) -> None:
        if text is not None and text != self._told_hidden:
            log.warning("%s: %s", self._flow, text)
        self._told_hidden = text
        self._hidden_in_trouble(text)

    def _publish(self, selection: Selection) -> None:
        found = partitions_of(selection.copied)
        skipped = Counter(skip.reason.value for skip in selection.skipped)
        if found == self._partitions:
            return
        self._partitions = found
        log.info(
            "%s: mirroring %d topics with %d partitions; %d topics skipped%s",
            self._flow,
            len(selection.copied),
            len(found),
            skipped.total(),
            f" ({', '.join(f'{n} {why}' for why, n in skipped.items())})" if skipped else "",
        )
        self._on_change()
