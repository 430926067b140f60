"""What is packed for executors is all they need, wherever it is unpacked."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pyspark
import pytest

from connect.errors import ConfigError
from connectors.spark.packages import cached_environment, pack_code, pack_environment
from tests.support.deployment.archives import unpack
from tests.support.spark.session import bare_python

# The modules whose functions run on executors.
LOOK = """
import sys
import connectors.mirror.spark.audit_executor, connectors.mirror.spark.copy.shards, cramjam
assert "pyarrow" not in sys.modules
print(connectors.mirror.spark.audit_executor.__file__, cramjam.__file__)
"""
SPARK_S_OWN = Path(pyspark.__file__).parent / "python" / "lib"
"""PySpark and Py4J, as executors have them."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive unpacked in `environment`, and a `code.zip`."""
    folder = tmp_path_factory.mktemp("packed")
    made = cached_environment(folder)
    assert cached_environment(folder) == made
    with tarfile.open(made) as archive:
        unpack(archive, folder / "environment")
    pack_code(folder).rename(folder / "code.zip")
    return folder


def run(packed: Path, *arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["environment/bin/python", *arguments],
        cwd=packed,
        env={
            "PATH": f"{path}:/usr/bin:/bin",
            "PYTHONPATH": ":".join(map(str, [packed / "code.zip", *SPARK_S_OWN.glob("*.zip")])),
        },
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )


def test_kerberos_is_packed_where_it_is_installed(packed: Path, tmp_path: Path) -> None:
    pytest.importorskip("gssapi", reason="gssapi is not installed: make install-test")
    look = "import gssapi; print(gssapi.__file__)"
    ended = run(packed, "-c", look, path=bare_python(tmp_path / "bare"))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(str(packed / "environment" / "packages"))


def test_a_python_without_packages_runs_what_executors_run(packed: Path, tmp_path: Path) -> None:
    ended = run(packed, "-c", LOOK, path=bare_python(tmp_path / "bare"))
    assert ended.returncode == 0, ended.stderr
    code, package = ended.stdout.split()
    assert code.startswith(str(packed / "code.zip"))
    assert package.startswith(str(packed / "environment" / "packages"))


def test_where_there_is_no_such_python_it_says_so(packed: Path, tmp_path: Path) -> None:
    launcher = packed / "environment" / "bin" / "python"
    text = launcher.read_text()
    line = next(line for line in text.splitlines() if line.startswith("for python in"))
    launcher.write_text(text.replace(line, "for python in no-such-python; do"))
    try:
        ended = run(packed, "-c", "1", path=tmp_path)
    finally:
        launcher.write_text(text)
    assert ended.returncode == 1
    assert "which is not in PATH" in ended.stderr


def test_the_code_is_all_of_ours_and_the_same_for_the_same_content(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
    made, again = pack_code(first), pack_code(second)
    assert made.name == again.name
    assert made.read_bytes() == again.read_bytes()
    names = set(zipfile.ZipFile(made).namelist())
    assert {"connect/errors.py", "connectors/spark/log4j2.properties"} <= names
    assert not any(name.endswith(".pyc") for name in names)


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-thing is not installed here"):
        pack_environment(tmp_path / "out.tar.gz", ["no-such-thing"])
    with pytest.raises(ConfigError, match="kafka-connect-mirror is installed as editable"):
        pack_environment(tmp_path / "out.tar.gz", ["kafka-connect-mirror"])
    assert list(tmp_path.iterdir()) == []
