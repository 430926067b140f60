"""The table of sentences of docs/reference/permissions.md.

`python -m tests.support.taken_permissions_page` starts two clusters, leaves out each permission for
which the page has no sentence (or each of a MODE, or `all`), and writes what the mirrors said.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from connect.errors import DeadlineExceeded
from deploy.brokers import KafkaCluster, KafkaRuntime, kafka_runtime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.pages import DOCS
from tests.support.permissions import authorizing_cluster
from tests.support.taken_permissions import USER, names, rows, said

__all__ = ["PAGE", "Key", "guarded_pair", "on_page"]

PAGE = DOCS / "reference" / "permissions.md"
_BEGIN = "<!-- From here made by `python -m tests.support.taken_permissions_page`; do not edit. -->"
_END = "<!-- Until here, too. -->"
_HEAD = ["| taken away | of cluster | flow | the mirror says |", "|---|---|---|---|"]

Key = tuple[str, str, str]
"""Mode, cluster and permission."""


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
    made = [authorizing_cluster(f"taken-{side}", [USER], kafka, logs) for side in ("a", "b")]
    with made[0] as source, made[1] as target:
        yield source, target


def _shortest(sentences: Collection[str]) -> str:
    return min(sentences, key=lambda each: (len(each), each))


def main(arguments: Collection[str]) -> int:
    """Try the rows that the page lacks; those of the modes that are named; or `all`. Returns 1 if a
    permission was not named."""
    wanted = list(rows())
    known = on_page(PAGE.read_text(encoding="utf-8"))
    found = {row.key: known[row.key] for row in wanted if row.key in known}
    missed = 0
    with tempfile.TemporaryDirectory() as name, guarded_pair(kafka_runtime(), Path(name)) as pair:
        for number, row in enumerate(wanted):
            if row.key in found and "all" not in arguments and row.mode.value not in arguments:
                continue
            folder = Path(name) / str(number)
            with closing(PortLease(cache_directory() / "ports")) as lease:
                listener = f"http://{LOOPBACK}:{lease.port}"
                try:
                    heard = said(pair, row, folder, folder / "log", listener, partial(names, row))
                except DeadlineExceeded as error:
                    print(f"{row.key}: {error}", file=sys.stderr)
                    missed += 1
                    continue
            found[row.key] = _shortest([each for each in heard if names(row, each)])
            print(*row.key, found[row.key], sep=" | ", flush=True)
            in_order = {each.key: found[each.key] for each in wanted if each.key in found}
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(_renewed(page, in_order), encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
