"""The tutorial's plugins and configs, taken from its page, on a worker and brokers."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

from deploy.brokers import KafkaCluster
from tests.support.rest import call
from tests.support.topics import unique
from tests.support.waiting import wait_until
from tests.support.workers import standalone_worker

PAGE = Path(__file__).parents[3] / "docs" / "writing-connectors.md"
_WAIT_S = 60.0


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def rows(database: Path) -> list[tuple[int, list[str]]]:
    """(offset, words) of each row, in their order."""
    with sqlite3.connect(database) as connection:
        found = connection.execute("select pos, words from lines order by pos").fetchall()
    return [(position, json.loads(words)) for position, words in found]


def test_the_tutorials_connectors_do_what_it_says(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    plugins, folder, database = tmp_path / "plugins", tmp_path / "in", tmp_path / "lines.db"
    plugins.mkdir()
    folder.mkdir()
    (plugins / "folders.py").write_text("\n\n".join(blocks("python")))
    topic = unique("folder-lines")
    texts = [
        text.replace("/tmp/tutorial", str(tmp_path)).replace("folder-lines", topic)
        for text in blocks("json")
    ]
    source, sink = (json.loads(text) for text in texts)
    text = "org.apache.kafka.connect.storage.StringConverter"
    props = {
        "bootstrap.servers": target_cluster.bootstrap_servers,
        "key.converter": text,
        "value.converter": text,
        "offset.storage.file.filename": str(tmp_path / "offsets.db"),
        "offset.flush.interval.ms": "200",
        "plugin.path": str(plugins),
        "topic.creation.enable": "true",
    }
    (folder / "a.txt").write_text("one secret\nhalf a")

    def positions(url: str) -> dict[str, Any]:
        found = call(url, "GET", "/connectors/folder/offsets").json()["offsets"]
        return {each["partition"]["file"]: each["offset"]["position"] for each in found}

    with standalone_worker(props, tmp_path, logs / "1.log") as url:
        wrong = {**source, "name": "x", "directory": "/no/such"}
        answer = call(url, "PUT", "/connector-plugins/FolderSource/config/validate", wrong).json()
        assert answer["error_count"] == 1
        assert call(url, "PUT", "/connectors/folder/config", source).status == 201
        wait_until(lambda: positions(url) == {"a.txt": 11}, _WAIT_S, "the first line's offset")
        assert call(url, "PUT", "/connectors/copy/config", sink).status == 201
        (folder / "b.txt").write_text("two\n")
        wait_until(lambda: positions(url).get("b.txt") == 4, _WAIT_S, "the new file's offset")
    with (folder / "a.txt").open("a") as file:
        file.write(" line\n")
    with standalone_worker(props, tmp_path, logs / "2.log") as url:
        call(url, "PUT", "/connectors/folder/config", source)
        call(url, "PUT", "/connectors/copy/config", sink)
        expected = [(0, ["one", "***"]), (1, ["two"]), (2, ["half", "a", "line"])]
        wait_until(
            lambda: database.exists() and rows(database) == expected, _WAIT_S, "each line once"
        )
