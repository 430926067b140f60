"""The table of sentences of docs/reference/permissions.md.

`python -m tests.support.security.taken_permissions_page` starts two clusters, leaves out each
permission for which the page has no sentence (or each of a MODE or program, or `all`), and writes
what was said.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from connect.errors import DeadlineExceeded
from deploy.brokers import KafkaCluster, KafkaRuntime, kafka_runtime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.docs.pages import DOCS
from tests.support.security.permissions import authorizing_cluster
from tests.support.security.taken_from_connectors import ConnectorRow, MirrorWorkers, connector_rows
from tests.support.security.taken_from_jobs import JobFlow, JobRow, job_rows
from tests.support.security.taken_from_mirrormaker1 import (
    MirrorMaker1Row,
    mirrormaker1_rows,
    mirrormaker1_said,
)
from tests.support.security.taken_from_programs import (
    CommandRow,
    CopiedFlow,
    command_rows,
    copied_flow,
)
from tests.support.security.taken_from_workers import WorkerRow, worker_rows, worker_said
from tests.support.security.taken_permissions import USERS, Row, named_by, names, rows, said

__all__ = ["PAGE", "AnyRow", "Key", "all_rows", "guarded_pair", "on_page"]

PAGE = DOCS / "reference" / "permissions.md"
_COMMAND = "python -m tests.support.security.taken_permissions_page"
_BEGIN = f"<!-- From here made by `{_COMMAND}`; do not edit. -->"
_END = "<!-- Until here, too. -->"
_HEAD = ["| taken away | of cluster | flow or program | it says |", "|---|---|---|---|"]

Key = tuple[str, str, str]
"""Mode or program, cluster and permission."""

AnyRow = Row | WorkerRow | ConnectorRow | MirrorMaker1Row | CommandRow | JobRow


def all_rows() -> list[AnyRow]:
    """All that is tried, in the order of the page."""
    found: list[AnyRow] = [*rows(), *worker_rows(), *connector_rows(), *mirrormaker1_rows()]
    found += [*command_rows(), *job_rows()]
    return found


def on_page(page: str) -> dict[Key, str]:
    """Return the page's sentences."""
    table = page.partition(_BEGIN)[2].partition(_END)[0]
    found: dict[Key, str] = {}
    for line in table.strip().splitlines()[len(_HEAD) :]:
        permission, cluster, mode, sentence = line.strip("| ").split(" | ")
        found[mode, cluster, permission] = sentence.strip("`")
    return found


def _renewed(page: str, sentences: Mapping[Key, str]) -> str:
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"The page has no lines {_BEGIN} and {_END}")
    lines = [
        f"| {permission} | {cluster} | {mode} | `{sentence}` |"
        for (mode, cluster, permission), sentence in sentences.items()
    ]
    table = "\n".join([*_HEAD, *lines])
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


@contextmanager
def guarded_pair(kafka: KafkaRuntime, logs: Path) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """A source and a target with authorizers."""
    made = [authorizing_cluster(f"taken-{side}", USERS, kafka, logs) for side in ("a", "b")]
    with made[0] as source, made[1] as target:
        yield source, target


def _shortest(sentences: Collection[str]) -> str:
    return min(sentences, key=lambda each: (len(each), each))


class _Asked:
    """Two clusters, the one flow about which all commands ask, and the one that all jobs copy."""

    def __init__(self, pair: tuple[KafkaCluster, KafkaCluster], directory: Path) -> None:
        self._pair = pair
        self._directory = directory
        self._stack = ExitStack()
        self._flow: CopiedFlow | None = None
        self._jobs: JobFlow | None = None
        self._workers = MirrorWorkers(pair, directory / "workers")

    def close(self) -> None:
        self._workers.close()
        self._stack.close()

    def sentences(self, row: AnyRow, number: int) -> Collection[str]:
        """What is said without a permission. Raises `DeadlineExceeded` if it is not named."""
        folder = self._directory / str(number)
        folder.mkdir()
        if isinstance(row, WorkerRow):
            return worker_said(self._pair[1], row, folder)
        if isinstance(row, MirrorMaker1Row):
            return mirrormaker1_said(self._pair, row, folder, folder / "log")
        if isinstance(row, CommandRow):
            if self._flow is None:
                copied = copied_flow(self._pair, folder, folder / "log")
                self._flow = self._stack.enter_context(copied)
            return self._flow.said(row).naming(row.permission)
        if isinstance(row, ConnectorRow):
            return self._workers.of(row.writer).said(row)
        # Its worker would miss the permissions that the next rows take away.
        self._workers.close()
        if isinstance(row, JobRow):
            if self._jobs is None:
                self._jobs = JobFlow(self._pair, folder)
            return self._jobs.said(row).naming(row.permission)
        with closing(PortLease(cache_directory() / "ports")) as lease:
            listener = f"http://{LOOPBACK}:{lease.port}"
            heard = said(self._pair, row, folder, folder / "log", listener, partial(names, row))
        return [each for each in heard if named_by(row.permission, each)]


def main(arguments: Collection[str]) -> int:
    """Try the rows that the page lacks; those of the modes that are named; or `all`. Returns 1 if a
    permission was not named."""
    wanted = all_rows()
    known = on_page(PAGE.read_text(encoding="utf-8"))
    found = {row.key: known[row.key] for row in wanted if row.key in known}
    missed = 0
    with (
        tempfile.TemporaryDirectory() as name,
        guarded_pair(kafka_runtime(), Path(name)) as pair,
        closing(_Asked(pair, Path(name))) as asked,
    ):
        for number, row in enumerate(wanted):
            if row.key in found and not {"all", row.key[0]} & set(arguments):
                continue
            try:
                heard = asked.sentences(row, number)
            except (DeadlineExceeded, AssertionError) as error:
                print(f"{row.key}: {error}", file=sys.stderr, flush=True)
                missed += 1
                continue
            found[row.key] = _shortest(heard)
            print(*row.key, found[row.key], sep=" | ", flush=True)
            in_order = {each.key: found[each.key] for each in wanted if each.key in found}
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(_renewed(page, in_order), encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
