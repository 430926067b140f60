"""What `make audit` finds, and how it says that it could not look."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from deploy import audit
from deploy.audit import Pinned, main, read_requirements, sbom, unlisted_licences

HASH = "a" * 64
LOCK = f"""# made by make lock
one==1.0 ; python_version < '3.12' \\
    --hash=sha256:{HASH} \\
    --hash=sha256:{"b" * 64}
Two_X==2.0
"""


def pip_audit(path: Path, text: str, error: str = "", code: int = 0) -> Path:
    """A program in place of pip-audit, which would ask the network."""
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\necho '{error}' >&2\nexit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def answer(*vulnerabilities: dict[str, object]) -> str:
    return json.dumps(
        {"dependencies": [{"name": "one", "version": "1.0", "vulns": list(vulnerabilities)}]}
    )


def test_a_lock_is_read_with_its_hashes() -> None:
    assert read_requirements(LOCK) == (
        Pinned("one", "1.0", (HASH, "b" * 64)),
        Pinned("two_x", "2.0", ()),
    )


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND CNRI-Python", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("", False),
        (None, True),
    ],
)
def test_each_licence_must_be_on_the_list(licence: str | None, allowed: bool) -> None:
    assert (unlisted_licences({"one": licence}) == []) == allowed


def test_the_sbom_names_each_package_with_hash_and_licence() -> None:
    made = sbom([Pinned("two_x", "2.0", (HASH,))], {"two_x": "MIT"})
    (component,) = made["components"]
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert component["purl"] == "pkg:pypi/two-x@2.0"
    assert component["hashes"] == [{"alg": "SHA-256", "content": HASH}]
    assert component["licenses"] == [{"expression": "MIT"}]
    assert made["dependencies"][0]["dependsOn"] == [component["bom-ref"]]


def test_the_projects_own_locks_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, document = pip_audit(tmp_path / "pip-audit", answer()), tmp_path / "sbom.json"
    assert main(["--pip-audit", str(program), "--sbom", str(document)]) == 0, capsys.readouterr()
    assert "Vulnerabilities of requirements.lock: looked up" in capsys.readouterr().out
    named = {each["name"] for each in json.loads(document.read_text())["components"]}
    assert {"confluent-kafka", "cryptography", "pyspark"} <= named
    assert not {"jgo", "psutil", "pytest"} & named


def test_a_vulnerability_is_named_with_its_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer({"id": "PYSEC-1", "fix_versions": ["1.1"]})
    assert main(["--pip-audit", str(pip_audit(tmp_path / "p", found, code=1))]) == 1
    assert "one 1.0 has PYSEC-1, mended in 1.1" in capsys.readouterr().out


def test_it_says_that_it_could_not_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = pip_audit(tmp_path / "p", "", "ConnectionError: no route to host", 1)
    assert main(["--pip-audit", str(broken)]) == 3
    told = capsys.readouterr()
    for kind in ("", "-image", "-test", "-kerberos"):
        lock = f"requirements{kind}.lock"
        assert f"looked up: {lock}: pip-audit failed: ConnectionError" in told.err
        assert f"Vulnerabilities of {lock}: not all looked up" in told.out
    assert main(["--pip-audit", str(tmp_path / "none")]) == 3
    assert "is not installed" in capsys.readouterr().err


def skipping(*names: str, known: int = 0) -> str:
    """What pip-audit says, with status 0, of packages that its source does not know."""
    reason = "Dependency not found on PyPI and could not be audited"
    unknown: list[dict[str, object]] = [{"name": name, "skip_reason": reason} for name in names]
    good: list[dict[str, object]] = [{"name": f"k{n}", "vulns": []} for n in range(known)]
    return json.dumps({"dependencies": [*unknown, *good]})


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (skipping("one", "two"), "knows none of the 2 packages of requirements.lock (one, two)"),
        (skipping("one", known=3), "does not know 1 packages of requirements.lock: one"),
        (skipping(), "found no package in requirements.lock"),
    ],
)
def test_packages_that_were_skipped_are_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, why: str
) -> None:
    """An index without vulnerability data answers "not found", which pip-audit takes for well."""
    assert main(["--pip-audit", str(pip_audit(tmp_path / "p", said))]) == 3
    told = capsys.readouterr().err
    assert why in told
    assert "Run make audit where pip-audit's source can be reached" in told


def test_packages_without_hashes_or_for_tests_only_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"{LOCK}pytest==9.0 \\\n    --hash=sha256:{HASH}\n")
    monkeypatch.setattr(audit, "RUNTIME_LOCK", lock)
    assert main(["--pip-audit", str(pip_audit(tmp_path / "p", answer()))]) == 1
    text = capsys.readouterr().out
    assert "two_x is not pinned with SHA-256" in text
    assert "pytest is for tests or the demo only" in text
