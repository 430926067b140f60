"""The command line of connect-mirror-maker, as far as no cluster is needed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from api.cli.mirror_maker import listening, main
from api.http_server import ApiServer, ListenerUnavailable

FLOW = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
metrics.listener = http://127.0.0.1:0
"""


def write(directory: Path, text: str) -> str:
    path = directory / "mm2.properties"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--unknown", "x"], ["a", "b"], ["--clusters"], ["--workers", "0", "a"]],
)
def test_a_wrong_command_line_is_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "usage: connect-mirror-maker" in capsys.readouterr().err


def test_help_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--check" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["clusters"]),
        ("clusters = a, b\n", ["bootstrap.servers"]),
        (FLOW + "offset.lag.max = many\n", ["offset.lag.max", "many", "number"]),
        (FLOW + "topics = a(b\n", ["topics", "a(b", "near index 1"]),
        (FLOW + "replication.policy.class = Nope\n", ["replication.policy.class", "Nope"]),
        (FLOW + "metrics.listener = here\n", ["metrics.listener", "here"]),
    ],
)
def test_wrong_properties_are_78_and_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str]
) -> None:
    assert main([write(tmp_path, text)]) == 78
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    sentence = output.err.strip().splitlines()[-1]
    assert sentence.startswith("connect-mirror-maker: ")
    assert [word for word in words if word not in sentence] == []


def test_a_file_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "absent.properties")]) == 78
    assert "absent.properties" in capsys.readouterr().err


def test_targets_must_be_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--clusters", "c", "--check", write(tmp_path, FLOW)]) == 78
    assert "--clusters" in capsys.readouterr().err
    assert main([write(tmp_path, FLOW), "--clusters", "c"]) == 78
    assert main(["--clusters", "a", "c", write(tmp_path, FLOW)]) == 78
    assert "must be one of clusters=a,b" in capsys.readouterr().err


def test_flows_that_would_go_round_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    circle = FLOW + (
        "b->a.enabled = true\n"
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    assert main([write(tmp_path, circle)]) == 78
    assert "back and forth without end" in capsys.readouterr().err


def test_a_taken_port_is_3_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert main([write(tmp_path, FLOW + f"metrics.listener = {address}\n")]) == 3
    assert f"Cannot listen on {address}" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_even_while_no_cluster_answers(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "api.cli.mirror_maker", write(tmp_path, FLOW)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "listening on" in line:
                break
        process.send_signal(number)
        rest = process.communicate(timeout=20)[1]
        assert process.returncode == 0, "".join(lines) + rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait()


def test_a_default_address_that_another_mirror_has_is_replaced_by_a_free_port(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Java's mirrors do not listen, so that several run on one host."""

    def serve(address: str) -> ApiServer:
        return ApiServer(pytest.fail, address, "metrics.listener")

    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"http://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ListenerUnavailable):
            listening(serve, taken, chosen=True)
        server = listening(serve, taken, chosen=False)
        try:
            assert server.url in caplog.text
            assert server.port not in (0, other.getsockname()[1])
        finally:
            server.stop()
