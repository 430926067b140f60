"""Runs of suites are recorded, whatever becomes of them; `make status` names those that are due."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz import __main__ as fuzz
from tests.runs.__main__ import PAGE, ROOT, record, status_lines
from tests.runs.counts import counting_environment, note, read_counts
from tests.runs.history import MOST_RUNS, Run, append_run, read_runs
from tests.runs.revisions import UNKNOWN
from tests.runs.suites import ALL, SUITES, Suite
from tests.simulation.worlds import WORLDS

RUN = Run("slow", ALL, "2026-01-01 10:00", "abc", "passed", "3 passed", "2 s")
SUITE = {"slow": Suite(("code",))}
SIMULATE = {"simulate": replace(SUITES["simulate"], paths=("code",))}
SIMULATED = replace(RUN, suite="simulate", ran="SEEDS=0-1000", counts="4 worlds, 1,001 seeds each")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the environment limits a run."""
    for suite in SUITES.values():
        for name in suite.variables:
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with an empty page of runs; not in git."""
    for folder in ("docs/contributing", "code", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / PAGE).write_text("# Runs\n\nText.\n\n| suite | ran |\n|---|---|\n\nAfter.\n")
    return tmp_path


@pytest.fixture
def repository(root: Path) -> Path:
    """The same in git."""
    git(root, "init", "--quiet")
    commit(root, "code/a", "Begin")
    return root


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, timeout=30)


def commit(root: Path, file: str, subject: str) -> None:
    (root / file).write_text(subject)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", subject)


def recorded(root: Path) -> list[Run]:
    return read_runs((root / PAGE).read_text())


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def status(root: Path) -> str:
    (line,) = status_lines(SUITE, root=root)
    return line


def test_a_run_is_a_line_and_the_page_around_it_stays(root: Path) -> None:
    append_run(root / PAGE, RUN)
    append_run(root / PAGE, replace(RUN, suite="fuzz", counts="a | b\nc"))
    assert recorded(root) == [RUN, replace(RUN, suite="fuzz", counts="a / b c")]
    text = (root / PAGE).read_text()
    assert text.startswith("# Runs\n\nText.\n\n| suite | ran | began (UTC) |")
    assert text.endswith("|\n\nAfter.\n")


def test_the_oldest_runs_of_a_suite_are_dropped(root: Path) -> None:
    append_run(root / PAGE, replace(RUN, suite="fuzz"))
    for number in range(MOST_RUNS + 5):
        append_run(root / PAGE, replace(RUN, counts=str(number)))
        append_run(root / PAGE, replace(RUN, ran="FAULT_WITHOUT=disks", counts=str(number)))
    runs = recorded(root)
    assert runs[0].suite == "fuzz"
    last = [str(number) for number in range(5, MOST_RUNS + 5)]
    assert [run.counts for run in runs if run.suite == "slow" and run.ran == ALL] == last
    assert [run.counts for run in runs if run.ran == "FAULT_WITHOUT=disks"] == last


def test_runs_of_less_drop_neither_a_whole_run_nor_the_widest(root: Path) -> None:
    kept = [
        SIMULATED,
        replace(SIMULATED, ran="WORLD=groups SEEDS=0-1000"),
        replace(SIMULATED, ran="WORLD=copier SEEDS=1-30000", counts="30,000 seeds each"),
    ]
    for run in kept:
        append_run(root / PAGE, run)
    for number in range(MOST_RUNS + 5):
        seed = f"WORLD=copier SEEDS={number}-{number + 9}"
        append_run(root / PAGE, replace(SIMULATED, ran=seed, counts="10 seeds each"))
        copier = "WORLD=copier SEEDS=0-1000"
        append_run(root / PAGE, replace(SIMULATED, ran=copier, counts="1,001 seeds each"))
    runs = recorded(root)
    assert runs[:3] == kept
    assert len(runs) == 3 + 2 * MOST_RUNS


def test_a_line_names_the_range_of_seeds_and_everything_else_that_limits_a_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDS", "0-5")
    monkeypatch.setenv("WORLD", "")  # as make sets one that is not given
    monkeypatch.setenv("FAULT_WITHOUT", "disks,clock")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k quick")
    for suite in ("simulate", "slow", "fuzz"):
        record(suite, python(""), root=root)
    assert [run.ran for run in recorded(root)] == [
        "SEEDS=0-5",
        "FAULT_WITHOUT=disks,clock 'PYTEST_ADDOPTS=-k quick'",
        ALL,
    ]


@pytest.mark.parametrize(
    ("suite", "ran", "parts"),
    [
        ("simulate", "SEEDS=0-1000", set(WORLDS)),
        ("simulate", "SEEDS=0-30000", set(WORLDS)),
        ("simulate", "WORLD=copier SEEDS=0-1000", {"copier"}),
        ("simulate", "SEEDS=0-999", set()),
        ("simulate", "SEEDS=1-30000", set()),
        ("simulate", "SEEDS=1000", set()),
        ("simulate", "SEEDS=", set()),
        ("simulate", "WORLD=copier", set()),
        ("simulate", "WORLD=other SEEDS=0-1000", set()),
        ("simulate", ALL, set()),
        ("mutants", ALL, set(WORLDS)),
        ("mutants", "WORLD=groups", {"groups"}),
        ("mutants", "some of them", set()),
        ("mutants", "half 'of them", set()),
        ("fuzz", "FUZZ_SECONDS=20", {ALL}),
        ("fuzz", "FUZZ_SECONDS=120", {ALL}),
        ("fuzz", "FUZZ_SECONDS=5", set()),
        ("fuzz", ALL, set()),
        ("slow", ALL, {ALL}),
        ("slow", "FAULT_WITHOUT=clock", set()),
        ("slow", "'PYTEST_ADDOPTS=-k quick'", set()),
        ("faults", ALL, {ALL}),
        ("faults", "FAULT_SEED=1-9", set()),
        ("faults", "FAULT_WITHOUT=clock", set()),
        ("bench", ALL, {ALL}),
    ],
)
def test_a_whole_run_of_each_suite(suite: str, ran: str, parts: set[str]) -> None:
    assert SUITES[suite].covers(ran) == parts


def test_worlds_that_are_recorded_are_those_there_are() -> None:
    assert {SUITES[name].parts for name in ("simulate", "mutants")} == {tuple(WORLDS)}


def test_a_run_tells_its_counts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD", "copier")
    program = "from tests.runs.counts import note; note({'seeds': 1000, 'findings': 0})"
    assert record("simulate", python(program), root=root) == 0
    (run,) = recorded(root)
    assert (run.suite, run.ran, run.result) == ("simulate", "WORLD=copier", "passed")
    assert run.counts == "1,000 seeds, 0 findings"
    assert run.commit == UNKNOWN


def test_pytest_tells_its_counts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds to load
    tests = root / "test_some.py"
    tests.write_text("def test_a(): pass\ndef test_b(): pass\ndef test_c(): assert False\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.runs.counts", str(tests)]
    assert record("slow", command, root=root) == 1
    (run,) = recorded(root)
    assert run.result == "failed with status 1"
    assert run.counts == "2 passed, 1 failed"


@pytest.mark.parametrize(
    ("program", "status"),
    [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 128 + 9)],
)
def test_a_run_that_fails_is_recorded_as_failed(root: Path, program: str, status: int) -> None:
    assert record("fuzz", python(program), root=root) == status
    (run,) = recorded(root)
    assert run.result == f"failed with status {status}"
    assert run.counts == "none told"


@pytest.mark.parametrize("whole_group", [True, False], ids=["Ctrl-C", "terminated"])
def test_a_run_that_is_ended_is_recorded_as_failed(root: Path, whole_group: bool) -> None:
    """Ctrl-C goes to all processes of a terminal; `kill` to one, which tells the suite."""
    suite = "import time; print('ready', flush=True); time.sleep(60)"
    arguments = ["fuzz", [sys.executable, "-c", suite]]
    program = (
        # A shell starts what runs in its background with SIGINT ignored, and children inherit that.
        f"import pathlib, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"from tests.runs.__main__ import record; "
        f"raise SystemExit(record(*{arguments}, root=pathlib.Path({str(root)!r})))"
    )
    recorder = subprocess.Popen(
        python(program), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    with recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == b"ready\n"
        if whole_group:
            os.killpg(recorder.pid, signal.SIGINT)
        else:
            recorder.terminate()
        status = recorder.wait(30)
    assert status in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert [run.result for run in recorded(root)] == [f"failed with status {status}"]


def test_a_command_that_is_not_there_fails(root: Path) -> None:
    assert record("fuzz", [str(root / "missing")], root=root) == 127
    assert [run.result for run in recorded(root)] == ["failed with status 127"]


def test_a_run_that_cannot_be_recorded_ends_as_it_would(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / PAGE).unlink()
    assert record("fuzz", python("raise SystemExit(3)"), root=root) == 3
    assert record("fuzz", python(""), root=root) == 0
    assert "This run of fuzz is not recorded" in capsys.readouterr().err


def test_without_git_the_commit_is_unknown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    assert record("slow", python(""), root=root) == 0
    (run,) = recorded(root)
    assert run.commit == UNKNOWN
    assert "UNKNOWN  passed" in status(root)


def test_counts_of_other_processes_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorded suite may start a program that counts, too."""
    told = tmp_path / "counts"
    for name, value in counting_environment(told).items():
        monkeypatch.setenv(name, value)  # as if this process had started itself
    note({"targets": 1})
    assert not told.exists()
    program = "from tests.runs.counts import note; note({'targets': 13})"
    subprocess.run(python(program), check=True, timeout=30)
    assert read_counts(told) == {"targets": 13}


@needs_git
def test_the_commit_is_named_and_whether_files_differ_from_it(repository: Path) -> None:
    for _ in range(2):  # the record itself is no change
        record("slow", python(""), root=repository)
    (repository / "new").write_text("x")
    record("slow", python(""), root=repository)
    first, second, third = (run.commit for run in recorded(repository))
    assert first == second
    assert len(first) >= 10
    assert third == f"{first}, changed"


@needs_git
def test_a_suite_is_due_once_its_code_changes(repository: Path) -> None:
    assert "DUE      no run was whole, which is all of it" in status(repository)
    record("slow", python(""), root=repository)
    assert "current  passed" in status(repository)
    commit(repository, "other/b", "Change what it does not cover")
    assert "current  passed" in status(repository)
    (repository / "code" / "a").write_text("x")
    assert "changed since: changes that are not committed" in status(repository)
    commit(repository, "code/b", "Change its code")
    commit(repository, "code/c", "And once more")
    assert "DUE      passed" in status(repository)
    assert "changed since: 2 commits, the newest " in status(repository)
    assert status(repository).endswith(" And once more")


@needs_git
def test_a_narrower_run_or_one_that_failed_is_not_enough(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as limited:
        limited.setenv("FAULT_WITHOUT", "clock")
        record("slow", python(""), root=repository)
    assert "DUE      no run was whole" in status(repository)
    record("slow", python("raise SystemExit(1)"), root=repository)
    assert "FAILED   failed with status 1" in status(repository)


@needs_git
def test_worlds_that_ran_one_by_one_are_as_good_as_all_at_once(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate(seeds: str, world: str = "") -> list[list[str]]:
        monkeypatch.setenv("SEEDS", seeds)
        monkeypatch.setenv("WORLD", world)
        record("simulate", python(""), root=repository)
        return [line.split()[:3] for line in status_lines(SIMULATE, root=repository)]

    def current(*worlds: str) -> list[list[str]]:
        return [["simulate", each, "current" if each in worlds else "DUE"] for each in WORLDS]

    assert simulate("0-1000", "copier") == current("copier")
    assert simulate("0-5", "groups") == current("copier")
    for world in ("groups", "mirror", "workers"):
        last = simulate("0-1000", world)
    assert last == current(*WORLDS)
    commit(repository, "code/b", "Change its code")
    assert simulate("0-2000", "mirror") == current("mirror")
    assert simulate("0-1000") == [["simulate", "current", "passed"]]


@needs_git
def test_a_commit_that_is_not_here_cannot_be_compared(repository: Path) -> None:
    append_run(repository / PAGE, replace(RUN, commit="0123456789"))
    assert "git cannot compare that commit with this code" in status(repository)


def test_what_suites_cover_exists() -> None:
    for name, suite in SUITES.items():
        for path in suite.paths:
            assert (ROOT / path).exists(), f"{name} covers {path}, which is not there"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_security_tests_exist_and_are_covered() -> None:
    """pytest ends before the first test if a path is missing."""
    rule = "named:; @echo $(SECURITY_TESTS)"
    command = ["make", "--silent", "--no-print-directory", "--eval", rule, "named"]
    named = subprocess.run(
        command, cwd=ROOT, check=True, timeout=60, capture_output=True, text=True
    )
    tests = named.stdout.split()
    assert tests
    for each in tests:
        assert (ROOT / each).exists(), each
        assert any(Path(each).is_relative_to(path) for path in SUITES["security"].paths), each


def test_the_decoders_that_are_fuzzed_are_covered() -> None:
    for module in fuzz._DECODERS:
        path = module.replace(".", os.sep) + ".py"
        assert any(Path(path).is_relative_to(each) for each in SUITES["fuzz"].paths), path


def test_the_page_of_this_project_is_one() -> None:
    assert {run.suite for run in read_runs((ROOT / PAGE).read_text())} <= set(SUITES)
    assert {line.split()[0] for line in status_lines()} == set(SUITES)
