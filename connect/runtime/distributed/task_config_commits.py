"""Commits the task configs that this worker's connectors generate, itself or through the leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from connect.runtime.distributed.group_configs import GroupConfigs
from connect.runtime.distributed.leader_client import InternalRequests
from connect.runtime.distributed.leadership import Leading
from connect.runtime.distributed.membership import Membership
from connect.storage.config_state import ClusterConfigState

__all__ = ["GroupCommits"]


class GroupCommits:
    """The `Commits` of a worker in a group, on the herder's thread.

    If workers do not send requests to each other, and writing is not the leader's privilege
    (`publishes_itself`), the connector's worker writes the configs itself.
    """

    def __init__(
        self,
        configs: GroupConfigs,
        membership: Membership,
        leading: Leading,
        leader_requests: InternalRequests,
        *,
        publishes_itself: bool,
    ) -> None:
        self._configs = configs
        self._membership = membership
        self._leading = leading
        self._leader_requests = leader_requests
        self.publishes_itself = publishes_itself

    @property
    def configs(self) -> ClusterConfigState:
        return self._configs.current

    def commit_task_configs(
        self, connector: str, configs: Sequence[Mapping[str, str]]
    ) -> Future[None] | None:
        if self._membership.is_leader or self.publishes_itself:
            self._leading.put_task_configs(connector, configs)
            return None
        url = self._membership.leader_url
        return self._leader_requests.post_task_configs(url, connector, configs)

    def task_configs_answered(self, connector: str) -> None:
        """Do nothing: no request waits for it here."""
