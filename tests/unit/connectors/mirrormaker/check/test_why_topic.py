"""What `connect-mirror why TOPIC` prints: each answer, the key that decided it, and its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from api.cli.connect_mirror.why import print_explanations
from connect.clients.groups.describe_group import GroupPeer
from connect.clients.librdkafka.admin import Admin
from connect.config.types import SecretStr
from connect.config.worker import WorkerConfig
from connectors.mirror.config.clients import source_admin, target_admin
from connectors.mirror.history.flow_events import write_event
from connectors.mirror.history.rows import EventRow, FlowTask
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.running_flow import LiveFlow
from connectors.mirrormaker.check.why import Explanation, Step
from connectors.mirrormaker.check.why_running import workers_step
from connectors.mirrormaker.check.why_topic import _running_steps, _Seen, _Topic, why_topic
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.precedence import Flow
from connectors.mirrormaker.flow_plans import plan_flows, resolved_source_config

AB = Flow("a", "b")
CLUSTERS = """clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
"""
RENAMED = """a->b.transforms = one
a->b.transforms.one.type = org.apache.kafka.connect.transforms.RegexRouter
a->b.transforms.one.regex = .*t[12]
a->b.transforms.one.replacement = {}
"""
HEALTHY = {"partition": 0, "error": None, "time_to_loss_seconds": None}

Build = Callable[..., _Topic]
Printed = Callable[..., str]


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], MirrorMakerConfig]:
    """Reads a file of four lines and these."""

    def read(lines: str) -> MirrorMakerConfig:
        path = tmp_path / "mm2.properties"
        path.write_text(CLUSTERS + lines)
        return MirrorMakerConfig.from_file(path)

    return read


@pytest.fixture
def build(config: Callable[[str], MirrorMakerConfig]) -> Iterator[Build]:
    """Makes the questions to a flow whose clusters nobody asks."""
    with ExitStack() as stack:

        def make(lines: str = "") -> _Topic:
            read = config(lines)
            plan = next(each for each in plan_flows(read) if each.name == str(AB))
            props = resolved_source_config(read, plan)
            worker = WorkerConfig.from_properties(read.worker_config(*AB))
            source = stack.enter_context(closing(Admin(source_admin(props))))
            target = stack.enter_context(closing(Admin(target_admin(props))))
            flow = DedicatedFlow(plan.name, props, worker)
            return _Topic(read, AB, flow, source, target, Explanation("t", "topic", "a->b"), False)

        yield make


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    monkeypatch.setenv("COLUMNS", "400")

    def text(*steps: Step) -> str:
        print_explanations([Explanation("t", "topic", "a->b", list(steps))], None)
        heading, *lines = capsys.readouterr().out.strip().splitlines()
        assert heading == "== topic t in flow a->b"
        return "\n".join(line.rstrip() for line in lines)

    return text


@pytest.mark.parametrize(
    ("lines", "topic", "told"),
    [
        ("", "orders", "ok    Does the flow select the topic? yes, as a.orders [topics, default]"),
        (
            "a->b.topics = orders.*\n",
            "orders",
            "ok    Does the flow select the topic? yes, as a.orders [a->b.topics, line 5]",
        ),
        (
            "a->b.topics = orders.*\n",
            "bills",
            "STOP  Does the flow select the topic? no: no element of topics matches it (orders.*) "
            "[a->b.topics, line 5]\n"
            "      -> Add it to a->b.topics",
        ),
        (
            "topics.exclude = .*secret\n",
            "orders.secret",
            "STOP  Does the flow select the topic? no: .*secret in topics.exclude matches it "
            "[topics.exclude, line 5]\n"
            "      -> Change topics.exclude",
        ),
        (
            "",
            "b.orders",
            "STOP  Does the flow select the topic? no: copied from b, the target "
            "[replication.policy.class, default]",
        ),
        (
            "",
            "mm2-offsets.b.internal",
            "STOP  Does the flow select the topic? no: internal to Kafka or to the mirror",
        ),
        (
            RENAMED.format("orders"),
            "t1",
            "STOP  Does the flow select the topic? no: would be named orders on b, as would t2: "
            "give them different names, or exclude all but one [a->b.transforms, line 5]",
        ),
        (
            RENAMED.format("__hidden"),
            "t1",
            "STOP  Does the flow select the topic? no: transforms rename its copy to "
            "__hidden, which is an internal topic [a->b.transforms, line 5]",
        ),
    ],
)
def test_whether_the_flow_selects_the_topic(
    build: Build, printed: Printed, lines: str, topic: str, told: str
) -> None:
    asked = build(lines)
    skip = asked._skip(topic, {topic: 1, "t2": 1})
    assert printed(asked._selected(topic, skip)) == told


def test_a_topic_that_is_copied_already_keeps_a_name_that_others_would_have(
    build: Build, printed: Printed
) -> None:
    asked = build(RENAMED.format("orders"))
    skip = asked._skip("t1", {"t1": 1, "t2": 1}, {"t1"})
    assert printed(asked._selected("t1", skip)) == (
        "ok    Does the flow select the topic? yes, as orders [topics, default]"
    )


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (2, "ok    Do workers run the flow? yes, 2 in group a-mm2"),
        (
            0,
            "STOP  Do workers run the flow? no: group a-mm2 on b has no members, or the flow is "
            "stopped\n"
            "      -> Start connect-mirror run, or resume the flow with connect-mirror resume",
        ),
    ],
)
def test_whether_workers_run_it(build: Build, printed: Printed, members: int, told: str) -> None:
    peers = [GroupPeer(str(number), "mirror", "/host") for number in range(members)]
    live = LiveFlow(peers, frozenset(), lambda _: True)
    assert printed(workers_step(build()._dedicated, "b", live)) == told


@pytest.mark.parametrize(
    ("existing", "told"),
    [
        (3, "ok    Is the copy on b? yes, a.t with 3 partitions"),
        (
            2,
            "warn  Is the copy on b? a.t has 2 of 3 partitions "
            "[refresh.topics.interval.seconds, line 5]\n"
            "      -> The next refresh adds them",
        ),
    ],
)
def test_whether_the_copy_has_all_partitions(
    build: Build, printed: Printed, existing: int, told: str
) -> None:
    topic = build("refresh.topics.interval.seconds = 60\n")
    assert printed(topic._created("t", 3, {"a.t": existing})) == told


@pytest.mark.parametrize(
    ("assigned", "told"),
    [
        (range(8), "ok    Do tasks have its partitions? yes, all"),
        (
            range(1),
            "warn  Do tasks have its partitions? no task has partitions 1, 2, 3, 4, 5 and more "
            "[refresh.topics.interval.seconds, default]\n"
            "      -> The next refresh assigns them; if not, see connect-mirror status",
        ),
    ],
)
def test_whether_tasks_have_its_partitions(
    build: Build, printed: Printed, assigned: range, told: str
) -> None:
    live = LiveFlow((), frozenset(("t", number) for number in assigned), lambda _: True)
    assert printed(build()._assigned("t", 8, live)) == told


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        (
            None,
            "ok    What does the running mirror say? it was not asked, or does not answer at "
            "metrics.listener",
        ),
        ([HEALTHY], "ok    What does the running mirror say? no partition is in trouble"),
        (
            [{**HEALTHY, "error": "too large"}],
            "warn  What does the running mirror say? partition 0: too large",
        ),
        (
            [{**HEALTHY, "time_to_loss_seconds": 90.0}],
            "warn  What does the running mirror say? partition 0: the source deletes records that "
            "are not copied in 90 s\n"
            "      -> Raise retention on the source, or the flow's limits and tasks.max",
        ),
        (
            [{**HEALTHY, "timestamps_ahead_seconds": 300.0}],
            "warn  What does the running mirror say? records have timestamps up to 300 s later "
            "than the clock of the worker\n"
            "      -> Check the clocks of the worker's host and of the producers",
        ),
    ],
)
def test_what_the_running_mirror_says(
    printed: Printed, partitions: list[Mapping[str, object]] | None, told: str
) -> None:
    assert printed(*_running_steps(partitions or [], partitions is not None)) == told


def test_losses_of_the_last_day_are_from_the_history(
    build: Build, printed: Printed, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'h.db'}"
    topic = build(f"mirror.history.url = {url}\n")
    loss = EventRow("retention", "t", 0, "a.t", "skip", "source", 5, 14, 10, 15, "offsets 5 to 14")
    write_event(SecretStr(url), 7, FlowTask("c", 0, "a", "b"), loss)
    assert printed(topic._losses("t")) == (
        "warn  Were records lost in the last 24 hours? yes, 10; the last time: offsets 5 to 14\n"
        "      -> connect-mirror history lists all; backfill copies what the source still has"
    )
    assert printed(topic._losses("other")) == (
        "ok    Were records lost in the last 24 hours? no, according to the history"
    )
    assert printed(build("mirror.history.url = none\n")._losses("t")) == (
        "ok    Were records lost in the last 24 hours? not known: there is no history "
        "[mirror.history.url, line 5]"
    )


def test_a_flow_that_is_not_enabled(
    config: Callable[[str], MirrorMakerConfig], printed: Printed
) -> None:
    read = config("")
    assert printed(*why_topic(read, Flow("b", "a"), "t", None).steps) == (
        "STOP  Is the flow b->a enabled? no [b->a.enabled, default]\n"
        "      -> Set b->a.enabled=true and restart"
    )


def test_a_cluster_that_does_not_answer_is_named_with_its_line(
    config: Callable[[str], MirrorMakerConfig], printed: Printed
) -> None:
    told = printed(*why_topic(config(""), AB, "t", None).steps).splitlines()
    assert told[0] == "ok    Is the flow a->b enabled? yes [a->b.enabled, line 4]"
    assert told[1].startswith("STOP  Does cluster a answer? ")
    assert "127.0.0.1:1" in told[1]
    assert told[1].endswith("[a.bootstrap.servers, line 2]")


@pytest.mark.parametrize(
    ("lines", "target", "told"),
    [
        (
            "a->b.mirror.provenance.enabled = false\n",
            "two",
            "ok    Would its copy make a loop? not known: loops are found only by names "
            "[a->b.mirror.provenance.enabled, line 5]",
        ),
        (
            "",
            "one",
            "ok    Would its copy make a loop? not by its name; source and target are the same "
            "cluster",
        ),
    ],
)
def test_loops_that_no_cluster_is_asked_for(
    build: Build, printed: Printed, lines: str, target: str, told: str
) -> None:
    topic = build(lines)
    seen = [_Seen(topic._source, each, {"t": 1}) for each in ("one", target)]
    assert printed(topic._loop("t", 1, *seen)) == told
