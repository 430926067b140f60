"""The commands of tutorials and how-to guides, typed page by page on clusters of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.docs.page_runs import BACKGROUND, SKIP, PageRun, output_pattern
from tests.support.docs.pages import DOCS, blocks
from tests.support.flows.mirrors import mirror_maker, mm2_properties
from tests.support.records.connector_offsets import store_replicator_offsets
from tests.support.records.groups import commit, committed, consume
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, end_offset, has_topic
from tests.support.security.certificates import Authority
from tests.support.security.secure_listeners import LOGIN, tls_properties
from tests.support.waiting import wait_until

PAGES = sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md")])
# Pages whose commands a test of their own types.
ELSEWHERE = {"failover.md": "tests/integration/mirror/test_failover_page.py"}
# What cannot be done here. These blocks are only checked for syntax.
REASONS = {
    "installs a system service",
    "installs packages",
    "needs Prometheus",
    "the address is yours",
    "the jars are downloaded",
    "needs Docker",
    "needs Kubernetes",
    "needs a container builder",
    "needs a container runtime",
    "needs a running mirror",
    "needs a Connect cluster with this connector",
}
# In `make test`, besides the tutorials; `make slow` has the others.
SOON = {"move-from-java.md", "move-from-mirrormaker-1.md", "tls-and-sasl.md"}
# Tutorials create their topics; elsewhere there are records to be mirrored.
COUNT, COMMITTED = 100, 60
PASSWORD = "open-sesame"
SECURE = "how-to/tls-and-sasl.md"


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


def has_commands(page: Path) -> bool:
    return any(each.language == "bash" and SKIP not in each.mark for each in blocks(page))


def in_make_test(page: Path) -> bool:
    return page.parent.name == "tutorials" or page.name in SOON


def secure_properties(authority: Authority) -> dict[str, str]:
    """Broker properties of a listener with TLS, where `mirror` logs in with its password."""
    users = f'{LOGIN}.plain.PlainLoginModule required user_mirror="{PASSWORD}";'
    prefix = "listener.name.secure"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": users,
        **tls_properties("secure", authority, LOOPBACK),
    }


@contextmanager
def clusters(
    page: Path, directory: Path, kafka: KafkaRuntime, logs: Path
) -> Iterator[list[KafkaCluster]]:
    """As many as the page needs."""
    count = 3 if "localhost:9094" in page.read_text() else 2
    secure = name_of(page) == SECURE
    authority = Authority()
    if secure:
        (directory / "ca.pem").write_text(authority.pem)
    made = [
        KafkaCluster(
            name=name,
            kafka=kafka,
            logs=logs,
            listeners={"SECURE": "SASL_SSL"} if secure else {},
            properties=secure_properties(authority) if secure else {},
        )
        for name in "abc"[:count]
    ]
    with ExitStack() as stack:
        for cluster in made:
            stack.callback(cluster.close)
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(KafkaCluster.start, made))
        yield made


@contextmanager
def addresses(page: Path, made: list[KafkaCluster]) -> Iterator[Mapping[str, str]]:
    """The addresses on pages, and those that are there."""
    listener = "SECURE" if name_of(page) == SECURE else "PLAINTEXT"
    with ExitStack() as stack:
        metrics, rest = (PortLease(cache_directory() / "ports") for _ in range(2))
        stack.callback(metrics.close)
        stack.callback(rest.close)
        yield {
            **{
                f"localhost:{9092 + number}": cluster.bootstrap(listener)
                for number, cluster in enumerate(made)
            },
            "127.0.0.1:9404": f"{LOOPBACK}:{metrics.port}",
            "127.0.0.1:8083": f"{LOOPBACK}:{rest.port}",
            "localhost:8083": f"{LOOPBACK}:{rest.port}",
        }


def prepare(page: Path, made: list[KafkaCluster], directory: Path, logs: Path) -> None:
    """The records that the page speaks of."""
    a, b = (cluster.bootstrap_servers for cluster in made[:2])
    if page.parent.name == "tutorials":
        return
    create_topic(a, name="orders")
    produce(a, "orders", numbered(COUNT))
    commit(a, "mm1", {("orders", 0): COMMITTED})
    if page.name == "move-from-other-tools.md":
        last = {("orders", 0): COMMITTED - 1}
        store_replicator_offsets(b, "connect-offsets", "replicator", last)
    if page.name == "audit.md":
        extra = {"A->B.enabled": "true", "A->B.topics": "orders", "metrics.listener": ""}
        base = mm2_properties(a, b)
        props = {key.replace("source", "A").replace("target", "B"): base[key] for key in base}
        props |= {"clusters": "A, B", **extra}
        with mirror_maker(props, directory / "before", logs / "before.log") as mirror:
            wait_until(lambda: has_topic(b, "A.orders"), 60, "the copy of orders")
            wait_until(lambda: end_offset(b, "A.orders") == COUNT, 60, "its records")
            assert mirror.stop(30) == 0


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[] if in_make_test(page) else pytest.mark.slow)
        for page in PAGES
        if page.name not in ELSEWHERE and has_commands(page)
    ],
)
def test_the_pages_commands_work(
    page: Path, kafka: KafkaRuntime, tmp_path: Path, logs: Path
) -> None:
    with clusters(page, tmp_path, kafka, logs) as made, addresses(page, made) as there:
        prepare(page, made, tmp_path, logs)
        with PageRun(page, tmp_path, logs / "page.log", there) as run:
            run.run()
        if page.name == "move-from-mirrormaker-1.md":
            copied = end_offset(made[1].bootstrap_servers, "orders")
            assert copied == COUNT - COMMITTED, "it goes on where MirrorMaker 1 stopped"
        if page.name == "move-from-other-tools.md":
            copied = end_offset(made[1].bootstrap_servers, "orders.replica")
            assert copied == COUNT - COMMITTED, "it goes on where the other tool stopped"
        if page.name == "leave-an-old-cluster.md":
            assert end_offset(made[1].bootstrap_servers, "orders") == COUNT
            assert committed(made[1].bootstrap_servers, "mm1") == {("orders", 0): COMMITTED}
            goes_on_without_the_old_one(*made)


def goes_on_without_the_old_one(old: KafkaCluster, new: KafkaCluster) -> None:
    """Producers and the group on the new cluster work when the old one is off: each record is read
    once, those of before and those of after the move."""
    old.stop()
    servers, more = new.bootstrap_servers, numbered(20, start=COUNT)
    produce(servers, "orders", more)
    expected = [*numbered(COUNT)[COMMITTED:], *more]
    assert consume(servers, "mm1", ["orders"]) == [record.value for record in expected]
    assert committed(servers, "mm1") == {("orders", 0): COUNT + len(more)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_marks_are_known_and_scripts_are_well_formed(page: Path) -> None:
    for block in blocks(page):
        if block.mark:
            assert block.mark == BACKGROUND or block.mark.removeprefix(SKIP) in REASONS
        if block.language == "bash":
            done = subprocess.run(["bash", "-n"], input=block.text, text=True, check=False)
            assert done.returncode == 0, f"{page.name}:{block.line}"


def test_dots_of_an_output_stand_for_anything_within_a_line() -> None:
    pattern = output_pattern('{"healthy": true...\nnext...end\n')
    assert pattern.search('before\n{"healthy": true, "more": 1}\nnext to the end\nafter')
    assert not pattern.search('{"healthy": false, "x": true}\nnext to the end')
    assert not pattern.search('{"healthy": true}\nbetween\nnext to the end')
