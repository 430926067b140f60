"""What the tasks of `tests/plugins/staged.py` have written down: who did what when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PLUGINS", "Entry", "Ledger", "staged"]

PLUGINS = Path(__file__).parents[2] / "plugins"
"""For `plugin.path`."""


def staged(tasks: int, **more: str) -> dict[str, str]:
    """The config of a connector with so many tasks; `more`: its options."""
    count = str(tasks)
    return {"connector.class": "StagedConnector", "tasks.max": count, "tasks": count, **more}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `at` is comparable between the processes of this machine."""

    at: float
    pid: int
    event: str
    mark: str


class Ledger:
    """The files that tasks write in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def of(self, task: str) -> list[Entry]:
        """All entries of a task, "connector-0"; what is being written just now is left out."""
        path = self.directory / task
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8")
        return [_entry(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def tasks(self) -> Mapping[str, list[Entry]]:
        return {path.name: self.of(path.name) for path in sorted(self.directory.iterdir())}

    def last(self, task: str) -> Entry | None:
        entries = self.of(task)
        return entries[-1] if entries else None

    def reigns(self, task: str) -> list[tuple[int, float, float]]:
        """(process, first, last moment) of each run of the task, by beginning. A process may run
        it several times."""
        runs: list[list[Entry]] = []
        current: dict[int, list[Entry]] = {}
        for entry in self.of(task):
            if entry.event == "start" or entry.pid not in current:
                current[entry.pid] = []
                runs.append(current[entry.pid])
            current[entry.pid].append(entry)
        return [(run[0].pid, run[0].at, run[-1].at) for run in runs]

    def backward_marks(self) -> Iterator[str]:
        """Where a task began with an older config than it had run with; marks are numbers."""
        for task, entries in self.tasks().items():
            newest = -1
            for entry in entries:
                if entry.event == "start" and int(entry.mark) < newest:
                    yield f"{task} began with {entry.mark} after {newest}: process {entry.pid}"
                newest = max(newest, int(entry.mark))


def _entry(line: str) -> Entry:
    at, pid, event, mark = line.split(" ", 3)
    return Entry(float(at), int(pid), event, mark)
