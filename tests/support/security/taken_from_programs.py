"""What the commands beside a flow say when one permission of the table is left out of those that
they need.

All commands ask about one flow, which runs under another principal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from connect.errors import DeadlineExceeded
from connectors.mirrormaker.required_permissions import (
    Feature,
    RequiredPermission,
    required_permissions,
)
from deploy.brokers import KafkaCluster
from deploy.site.permissions_reference import NAMES
from tests.support.flows.mirrored import running
from tests.support.properties_files import properties_text
from tests.support.records.groups import commit
from tests.support.security.guarded_flow import COUNT, Guarded, granted
from tests.support.security.permissions import forget, grant, login
from tests.support.security.taken_permissions import (
    USER,
    in_words_of_the_page,
    message_of,
    named_by,
)
from tests.support.waiting import wait_until

__all__ = [
    "COMMANDS",
    "Answer",
    "Command",
    "CommandRow",
    "CopiedFlow",
    "command_rows",
    "copied_flow",
]

_MIRROR = "api.cli.connect_mirror.main"
_CLIENT = "api.cli.mirror_client"
_CHECKER = "api.cli.offset_checker"
_CHECKOUT = Path(__file__).parents[3]
_COMMAND_S = 120.0
_SOON_S = 12.0
_TO_GRANT = re.compile(r"[Gg]rant [A-Z]")

Arguments = Callable[[Guarded], Sequence[str]]


@dataclass(frozen=True)
class Command:
    """A command, by the name that the page has for it. `calls`: module and arguments, one after
    another; `FILE` stands for the flow's file, `LOGIN` for one with client properties of the
    source. `features`: the rows that suffice, of which those of `tried` are left out. `content`:
    its exit statuses when it has them all."""

    name: str
    tried: Feature
    features: frozenset[Feature]
    calls: Sequence[Arguments]
    content: frozenset[int] = frozenset({0})


def _mirror(command: str) -> Arguments:
    return lambda _: [_MIRROR, command, "-c", "FILE"]


def _translate(*more: str) -> Arguments:
    return lambda g: [
        *(_MIRROR, "translate", "-c", "FILE", "--from", g.flow.a, "--to", g.flow.b),
        *("--group", g.group, *more),
    ]


def _audit(_: Guarded) -> Sequence[str]:
    return ["api.cli.mirror_audit", "FILE", "--engine", "local", "--processes", "1"]


def _why(subject: Callable[[Guarded], str]) -> Arguments:
    return lambda g: [_MIRROR, "why", "-c", "FILE", subject(g)]


def _listing(command: str) -> Arguments:
    return lambda g: [_CLIENT, command, "--config", "FILE", "--to", g.flow.b]


def _start(g: Guarded) -> Sequence[str]:
    return [_CLIENT, "start", "--config", "FILE", "--group", g.group]


def _checked_group(g: Guarded) -> Sequence[str]:
    where = ["--bootstrap-server", g.flow.source.bootstrap("SASL"), "--command-config", "LOGIN"]
    return [_CHECKER, *where, "--group", g.group, "--topic", g.topic]


def _checked_flow(_: Guarded) -> Sequence[str]:
    return [_CHECKER, "--config", "FILE"]


def _tables(_: Guarded) -> Sequence[str]:
    return ["tests.support.spark.read_tables", "FILE"]


def _alone(feature: Feature, *calls: Arguments, content: Collection[int] = (0,)) -> Command:
    return Command(feature.value, feature, frozenset({feature}), calls, frozenset(content))


COMMANDS = (
    _alone(Feature.AUDIT, _audit),
    _alone(Feature.LAG, _mirror("lag")),
    _alone(
        Feature.WHY,
        _why(lambda g: g.topic),
        _why(lambda g: g.group),
        # 3: that nobody asked the running mirror, or that offsets lag.
        content=(0, 3),
    ),
    _alone(Feature.TRANSLATE, _translate()),
    Command(
        Feature.COMMIT.value,
        Feature.COMMIT,
        frozenset({Feature.TRANSLATE, Feature.COMMIT}),
        [_translate("--commit", "--rewind")],
    ),
    _alone(Feature.PAUSE, _mirror("pause"), _mirror("resume")),
    _alone(Feature.START, _start),
    _alone(Feature.CLUSTERS, _listing("clusters")),
    _alone(Feature.TOPICS, _listing("topics")),
    _alone(Feature.OFFSET_CHECKER, _checked_group),
    _alone(Feature.OFFSET_CHECKER_FLOW, _checked_flow),
    _alone(Feature.DATA_SOURCE, _tables),
)


class CommandRow(NamedTuple):
    """A permission that a command lacks, in the names of the page."""

    command: Command
    permission: RequiredPermission

    @property
    def key(self) -> tuple[str, str, str]:
        """Command, cluster and permission, as the page has them."""
        return self.command.name, self.permission.cluster, str(self.permission)


def command_rows() -> Iterator[CommandRow]:
    """All that is tried."""
    for command in COMMANDS:
        for permission in required_permissions(NAMES, command.features):
            if permission.feature is command.tried:
                yield CommandRow(command, permission)


class Answer(NamedTuple):
    """What a command's calls said: exit statuses, and both outputs in the page's words."""

    statuses: Sequence[int]
    lines: Sequence[str]

    def naming(self, permission: RequiredPermission) -> list[str]:
        """The lines that say to grant this."""
        return [line for line in self.lines if named_by(permission, line)]

    @property
    def grants(self) -> list[str]:
        """The lines that say to grant anything."""
        return [line for line in self.lines if _TO_GRANT.search(line)]


class CopiedFlow:
    """A flow that another principal's mirror copies, and what commands of `USER` say of it."""

    def __init__(self, guarded: Guarded, directory: Path) -> None:
        self.guarded = guarded
        self._directory = directory

    @property
    def properties(self) -> dict[str, str]:
        """Of the mirror, which may do everything."""
        flow, found = self.guarded.flow, self.guarded.properties("", _extra(self.guarded))
        mine = {key: value for key, value in found.items() if ".sasl." not in key}
        for alias, servers in ((flow.a, flow.source_servers), (flow.b, flow.target_servers)):
            mine |= {
                f"{alias}.bootstrap.servers": servers,
                f"{alias}.security.protocol": "PLAINTEXT",
            }
        return mine

    def wait(self) -> None:
        guarded = self.guarded
        guarded.wait_copied()
        guarded.wait_group()
        guarded.flow.wait_stored(guarded.topic, 0, COUNT - 1)

    def ask(self, command: Command, without: RequiredPermission | None) -> Answer:
        """Run the command with all permissions of its rows but one (None: with all)."""
        flow, guarded = self.guarded.flow, self.guarded
        of_page = required_permissions(NAMES, command.features)
        of_flow = guarded.needed(command.features, _extra(guarded))
        left_out = None if without is None else of_flow[of_page.index(without)]
        for cluster in (flow.source, flow.target):
            forget(cluster, USER)
            mine = [each for each in of_flow if guarded.cluster(each) is cluster]
            grant(cluster, USER, [granted(each) for each in mine if each != left_out])
        if Feature.COMMIT in command.features:
            self._move_group_ahead()
        file = self._directory / "asked.properties"
        _write(file, guarded.properties("", _extra(guarded)))
        client = self._directory / "login.properties"
        _write(client, login(flow.source, USER))
        files = {"FILE": str(file), "LOGIN": str(client)}
        statuses, lines = [], []
        for call in command.calls:
            words = [files.get(word, word) for word in call(guarded)]
            done = subprocess.run(
                [sys.executable, "-P", "-m", *words],
                capture_output=True,
                text=True,
                timeout=_COMMAND_S,
                check=False,
                cwd=self._directory,
                env={**os.environ, "PYTHONPATH": str(_CHECKOUT)},
            )
            statuses.append(done.returncode)
            lines += [*done.stdout.splitlines(), *done.stderr.splitlines()]
        return Answer(statuses, [in_words_of_the_page(guarded, message_of(line)) for line in lines])

    def _move_group_ahead(self) -> None:
        """Have something to commit: the mirror moves no group back, a call with `--rewind` does."""
        flow, place = self.guarded.flow, (self.guarded.flow.remote(self.guarded.topic), 0)
        commit(flow.target_servers, self.guarded.group, {place: COUNT})

    def said(self, row: CommandRow, sentence: str = "") -> Answer:
        """What the command says without the row's permission, once the brokers know that it is
        gone, and one of the lines about it is the `sentence` (empty: any)."""
        answers: list[Answer] = []

        def named() -> bool:
            # A broker may take up a change between two calls, or two requests of one.
            answers.append(self.ask(row.command, row.permission))
            about = answers[-1].naming(row.permission)
            return sentence in about if sentence else bool(about)

        try:
            wait_until(named, _SOON_S, f"{row.key} is named")
        except DeadlineExceeded as error:
            raise AssertionError(f"{row.key} is not named: {answers[-1]}") from error
        return answers[-1]


@contextmanager
def copied_flow(
    clusters: tuple[KafkaCluster, KafkaCluster], directory: Path, log: Path
) -> Iterator[CopiedFlow]:
    """The flow while its mirror runs and has copied everything."""
    directory.mkdir(parents=True, exist_ok=True)
    made = CopiedFlow(Guarded(clusters, USER), directory)
    with running(made.properties, directory / "mirror", log):
        made.wait()
        yield made


def _extra(guarded: Guarded) -> dict[str, str]:
    return {
        "topics": guarded.topic,
        "heartbeats.replication.enabled": "true",
        "mirror.history.url": "none",
    }


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text(properties_text(properties))
