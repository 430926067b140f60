"""The command line of `connect-mirror-client`, as far as it goes without a cluster."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from api.cli.mirror_client import main
from api.cli.output.mirror_client import Output
from connectors.mirror.failover import MovedOffset, MovePlan

MM2 = """
clusters = A, B, C
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
C.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(MM2)
    return str(path)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["clusters"],
        ["clusters", "--bootstrap", "h:1", "--config", "f"],
        ["translate", "--bootstrap", "h:1", "--from", "A"],
        ["translate", "--bootstrap", "h:1", "--group", "g"],
        ["translate", "--bootstrap", "h:1", "--from", "A", "--group", "g", "--groups", "g"],
        ["translate", "--bootstrap", "h:1", "--from", "A", "--group", "g", "--commit", "--dry-run"],
    ],
)
def test_a_wrong_command_line_ends_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "usage: connect-mirror-client" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clusters"], "--to is missing: use one of clusters=A, B, C"),
        (["topics", "--to", "X"], "Invalid value X for --to: use one of clusters=A, B, C"),
        (["translate", "--from", "A", "--to", "C", "--group", "g"], "Neither A->C nor C->A"),
        (["start", "--group", "g", "--offsets-topic", "t"], "--offsets-topic needs --connector"),
        (
            ["translate", "--from", "A", "--to", "B", "--groups", "("],
            "Invalid value ( for --groups",
        ),
    ],
)
def test_wrong_values_end_with_78_and_say_what_is_allowed(
    config: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([arguments[0], "--config", config, *arguments[1:]]) == 78
    assert words in capsys.readouterr().err


def test_a_file_that_is_not_there_ends_with_78(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clusters", "--config", "/nowhere/mm2.properties", "--to", "A"]) == 78
    assert "/nowhere/mm2.properties" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_ends_with_1(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clusters", "--config", config, "--to", "A", "--timeout", "1"]) == 1
    assert "Traceback" not in capsys.readouterr().err


EXACT = MovedOffset("g", "t", "A.t", 0, 10, 12, 0, "m", has=None, end=20)
UNKNOWN = MovedOffset("h", "t", "A.t", 1, 3, None, None)
PLAN = MovePlan([EXACT, UNKNOWN], True, {"i": "no answer"})


def shown(outcome: dict[str, str | None] | None, *, as_json: bool = False) -> str:
    out = io.StringIO()
    Output(out, as_json=as_json).move(PLAN, outcome)
    return out.getvalue()


def test_offsets_are_shown_with_what_is_read_again() -> None:
    lines = shown(None).splitlines()
    assert "g\tt\t0\t10\tA.t\t12\t20\t0\t" in lines
    assert "h\tt\t1\t3\tA.t\tunknown\t\t\t" in lines
    assert "i: cannot read its offsets: no answer" in lines
    assert lines[-1] == "Nothing was changed. --commit writes these offsets."


def test_what_was_committed_is_shown_and_what_was_not() -> None:
    lines = shown({"g": None, "h": "it has members"}).splitlines()
    assert "h: not committed: it has members" in lines
    assert lines[-1] == "Committed for 1 groups."


AHEAD = MovePlan(
    [
        MovedOffset("far", "t", "A.t", 0, 10, 12, 0, has=15, end=20),
        MovedOffset("far", "t", "A.t", 1, 10, 12, 0, has=11, end=20),
        MovedOffset("same", "t", "A.t", 0, 10, 12, 0, has=12, end=20),
    ],
    True,
    {},
)


def shown_ahead(outcome: dict[str, str | None] | None, *, rewind: bool = False) -> list[str]:
    out = io.StringIO()
    Output(out).move(AHEAD, outcome, rewind=rewind)
    return out.getvalue().splitlines()


def test_a_group_that_is_ahead_is_named_with_what_moves_it_back() -> None:
    lines = shown_ahead({"far": None})
    assert lines[-2] == (
        "far: ahead of these offsets in 1 partitions, which were left unchanged; --commit "
        "--rewind moves the group back there"
    )
    assert lines[-1] == "Committed for 1 groups; 1 already had these offsets; 1 are ahead."
    assert "which would be left unchanged" in shown_ahead(None)[-2]


def test_after_a_rewind_no_group_is_ahead() -> None:
    lines = shown_ahead({"far": None}, rewind=True)
    assert [line for line in lines if "ahead" in line] == []
    assert lines[-1] == "Committed for 1 groups; 1 already had these offsets."


def test_programs_learn_which_groups_are_ahead() -> None:
    out = io.StringIO()
    Output(out, as_json=True).move(AHEAD, {"far": None})
    assert json.loads(out.getvalue())["ahead"] == {"far": 1}


def test_programs_get_one_document() -> None:
    document = json.loads(shown({"g": None}, as_json=True))
    assert document["from"] == "commits"
    assert document["offsets"][0] == {
        "group": "g",
        "topic": "t",
        "new_topic": "A.t",
        "partition": 0,
        "offset": 10,
        "new_offset": 12,
        "again": 0,
        "metadata": "m",
        "has": None,
        "end": 20,
        "later": 0,
    }
    assert document["unreadable"] == {"i": "no answer"}
    assert document["committed"] == {"g": "done"}


@pytest.mark.parametrize(
    ("has", "new_offset", "ahead"), [(None, 5, True), (4, 5, True), (5, 5, False), (4, None, False)]
)
def test_only_what_is_ahead_of_the_group_moves_it(
    has: int | None, new_offset: int | None, ahead: bool
) -> None:
    row = MovedOffset("g", "t", "A.t", 0, 10, new_offset, 0, has=has)
    assert row.is_ahead == ahead


def test_the_target_s_alias_is_asked_for_where_its_offset_topics_are_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["--bootstrap", "127.0.0.1:1", "--from", "A", "--from-bootstrap", "127.0.0.1:2"]
    assert main(["translate", *where, "--group", "g"]) == 78
    assert "--from-bootstrap needs --to" in capsys.readouterr().err


def test_a_url_with_a_password_is_not_taken_from_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = "postgresql://mirror:canary@127.0.0.1:1/history"
    assert main(["history", "--url", url]) == 78
    refused = capsys.readouterr()
    assert "--url-file" in refused.err
    assert "canary" not in refused.err + refused.out

    (tmp_path / "url").write_text(f"sqlite:///{tmp_path}/history.db\n")
    assert main(["history", "--url-file", str(tmp_path / "url")]) == 78
    assert "Cannot read the history" in capsys.readouterr().err
