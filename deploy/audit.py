"""`python -m deploy.audit`: check what a deployment installs, and write its SBOM.

* every package of the locks is pinned with SHA-256, and so is every jar of the locks of
  brokers and of Spark's Kafka source;
* the runtime lock holds nothing that only tests and the demo need;
* the licence of each runtime package is on an allow-list;
* pip-audit knows no vulnerability of a pinned package (nothing looks for those of jars);
* `--sbom FILE` writes a CycloneDX document of the wheel and all that the runtime lock installs.

It says what it checked, and of each lock whose vulnerabilities it could not look up, why: pip-audit
is not installed, or its source does not answer or does not know packages.

Exit status: 0 nothing was found; 1 something was; 3 nothing was, but not all was looked up.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect.version import VERSION
from deploy.brokers.artifacts import read_lock
from deploy.brokers.errors import DownloadFailed

__all__ = ["Pinned", "licence_of", "main", "read_requirements", "sbom", "unlisted_licences"]

EXIT_OK, EXIT_FOUND, EXIT_NOT_LOOKED_UP = 0, 1, 3

ROOT = Path(__file__).parents[1]
RUNTIME_LOCK, TEST_LOCK = ROOT / "requirements.lock", ROOT / "requirements-test.lock"
IMAGE_LOCK = ROOT / "requirements-image.lock"
KERBEROS_LOCK = ROOT / "requirements-kerberos.lock"
JAR_LOCKS = ROOT / "deploy" / "brokers"
SPARK_LOCKS = ROOT / "connectors" / "spark" / "locks"

ALLOWED_LICENCES = frozenset(
    {
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CNRI-Python",
        "LGPL-2.1-or-later",
        "LGPL-3.0-only",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
    }
)
"""SPDX names. Packages under LGPL (crc32c; in images psycopg) and MPL (shtab) are imported and not
changed."""

# How packages that name no SPDX licence say it: in a classifier, or in words.
_IN_WORDS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.1-or-later",
}
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")
_ONLY_TESTS = ("brokers", "test", "docs", "examples", "audit", "lock")
_PIP_AUDIT_S = 600.0
_NAMED = 5
_REMEDY = (
    "Vulnerabilities of these packages are neither known nor excluded, so this is no pass. Run make"
    " audit where pip-audit's source can be reached, directly or by HTTPS_PROXY;"
    " PIP_AUDIT_VULNERABILITY_SERVICE=osv (or pypi) chooses the source, PIP_AUDIT_OSV_URL a copy"
)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A package of a lock file."""

    name: str
    version: str
    sha256: tuple[str, ...]


def read_requirements(text: str) -> tuple[Pinned, ...]:
    """Parse a lock file of pip."""
    found: list[Pinned] = []
    for entry in re.split(r"(?<!\\)\n", text):
        requirement = _REQUIREMENT.match(entry)
        if requirement is not None:
            hashes = tuple(_HASH.findall(entry))
            found.append(Pinned(requirement[1].lower(), requirement[2], hashes))
    return tuple(found)


def licence_of(name: str) -> str | None:
    """Return the SPDX expression of an installed package; "" if it names none that is known. None:
    it is not installed."""
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    for expression in metadata.get_all("License-Expression") or []:
        return str(expression)
    for classifier in metadata.get_all("Classifier") or []:
        kind, _, words = classifier.rpartition(" :: ")
        if kind.startswith("License") and words in _IN_WORDS:
            return _IN_WORDS[words]
    named = "".join(metadata.get_all("License") or []).strip()
    return _IN_WORDS.get(named, named if named in ALLOWED_LICENCES else "")


def unlisted_licences(licences: Mapping[str, str | None]) -> list[str]:
    """Return a sentence for each package whose licence is not on the list. Of alternatives (OR),
    one suffices."""
    found = []
    for name, expression in licences.items():
        if expression is None:
            continue
        choices = [re.split(r" AND ", choice) for choice in re.split(r" OR ", expression)]
        if not any(
            {part.strip("() ") for part in choice} <= ALLOWED_LICENCES for choice in choices
        ):
            found.append(
                f"{name}: its licence ({expression or 'unknown'}) is not on the allow-list"
            )
    return found


def sbom(packages: Iterable[Pinned], licences: Mapping[str, str | None]) -> dict[str, Any]:
    """Return a CycloneDX document (1.6) of the wheel and of the packages it is installed with."""
    components = []
    for package in packages:
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": _purl(package.name, package.version),
            "name": package.name,
            "version": package.version,
            "purl": _purl(package.name, package.version),
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.sha256],
        }
        licence = licences.get(package.name)
        if licence:
            component["licenses"] = [{"expression": licence}]
        components.append(component)
    own = _purl("kafka-connect-mirror", VERSION)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "kafka-connect-mirror",
                "version": VERSION,
                "purl": own,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"


def _without_hashes(locks: Iterable[Path]) -> Iterator[str]:
    for lock in locks:
        for package in read_requirements(lock.read_text(encoding="utf-8")):
            if not package.sha256:
                yield f"{lock.name}: {package.name} is not pinned with SHA-256"


def _jar_problems(locks: Iterable[Path]) -> Iterator[str]:
    for lock in locks:
        try:
            jars = read_lock(lock.read_text(encoding="utf-8"))
        except DownloadFailed as error:
            yield f"{lock.name}: {error}"
            continue
        for jar in jars:
            if not re.fullmatch(r"[0-9a-f]{64}", jar.sha256):
                yield f"{lock.name}: {jar.file_name} is not pinned with SHA-256"


def _superfluous(runtime: Iterable[Pinned], project: Mapping[str, Any]) -> Iterator[str]:
    """Name direct requirements of tests and demo that the runtime lock has without needing them."""
    needed = {_bare(text) for text in project["project"]["dependencies"]}
    needed |= {_bare(text) for text in project["dependency-groups"]["build"]}
    others = {
        _bare(text)
        for group in _ONLY_TESTS
        for text in project["dependency-groups"].get(group, [])
        if isinstance(text, str)
    }
    for package in runtime:
        if package.name in others - needed:
            yield f"{RUNTIME_LOCK.name}: {package.name} is for tests or the demo only"


def _bare(requirement: str) -> str:
    return re.split(r"[\[<>=;! ~]", requirement, maxsplit=1)[0].lower()


def _vulnerabilities(pip_audit: Path, lock: Path) -> tuple[list[str], str]:
    """Return what pip-audit found in a lock, and why it could not look ("" if it could)."""
    command = [str(pip_audit), "--requirement", str(lock), "--require-hashes", "--disable-pip"]
    command += ["--progress-spinner", "off", "--format", "json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PIP_AUDIT_S, check=False
        )
        dependencies = json.loads(done.stdout)["dependencies"]
    except FileNotFoundError:
        return [], f"{pip_audit} is not installed"
    except subprocess.TimeoutExpired:
        return [], f"pip-audit gave no answer within {_PIP_AUDIT_S:g} s"
    except (ValueError, KeyError):
        lines = done.stderr.strip().splitlines()
        return [], f"pip-audit failed: {lines[-1] if lines else 'without a message'}"
    skipped = [each["name"] for each in dependencies if "vulns" not in each]
    found = [
        f"{lock.name}: {each['name']} {each.get('version', '')} has {problem['id']}"
        + (f", mended in {', '.join(fixed)}" if (fixed := problem.get("fix_versions")) else "")
        for each in dependencies
        for problem in each.get("vulns", ())
    ]
    return found, _why_skipped(lock, skipped, len(dependencies))


def _why_skipped(lock: Path, skipped: Sequence[str], asked: int) -> str:
    """Return why packages were not looked up ("" if all were). pip-audit passes without them, also
    if its source answers nothing but "not found", as an index without that service does."""
    if not skipped:
        return "" if asked else f"pip-audit found no package in {lock.name}"
    named = ", ".join(skipped[:_NAMED]) + (", ..." if len(skipped) > _NAMED else "")
    if len(skipped) == asked:
        return f"pip-audit's source knows none of the {asked} packages of {lock.name} ({named})"
    return f"pip-audit's source does not know {len(skipped)} packages of {lock.name}: {named}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pip-audit", type=Path, default=Path("pip-audit"), metavar="PROGRAM")
    parser.add_argument("--sbom", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    runtime = read_requirements(RUNTIME_LOCK.read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    image = read_requirements(IMAGE_LOCK.read_text(encoding="utf-8"))
    licences = {package.name: licence_of(package.name) for package in (*runtime, *image)}
    jar_locks = sorted([*JAR_LOCKS.glob("kafka-*.lock"), *SPARK_LOCKS.glob("*.lock")])
    python_locks = (RUNTIME_LOCK, IMAGE_LOCK, TEST_LOCK, KERBEROS_LOCK)
    hashed = (*python_locks, JAR_LOCKS / "jre.lock")
    found = [
        *_without_hashes(hashed),
        *_jar_problems(jar_locks),
        *_superfluous(runtime, project),
        *unlisted_licences(licences),
    ]
    names = ", ".join(lock.name for lock in (*hashed, *jar_locks))
    print(f"Checked for SHA-256 of all that is pinned: {names}")
    print(f"Checked licences: {sum(each is not None for each in licences.values())} packages")
    missing = [name for name, licence in licences.items() if licence is None]
    if missing:
        print(f"Not installed here, so their licences were not checked: {', '.join(missing)}")
    unknown = []
    for lock in python_locks:
        problems, why = _vulnerabilities(arguments.pip_audit, lock)
        found += problems
        unknown += [f"{lock.name}: {why}"] if why else []
        print(f"Vulnerabilities of {lock.name}: {'not all looked up' if why else 'looked up'}")
    print("Vulnerabilities of jars: nothing looks them up; their versions are in the locks")
    if arguments.sbom is not None:
        arguments.sbom.parent.mkdir(parents=True, exist_ok=True)
        arguments.sbom.write_text(json.dumps(sbom(runtime, licences), indent=2), encoding="utf-8")
        print(f"Written: {arguments.sbom}")
    for sentence in found:
        print(sentence)
    for reason in unknown:
        print(f"The vulnerabilities could not be looked up: {reason}", file=sys.stderr)
    if unknown:
        print(_REMEDY, file=sys.stderr)
    if found:
        return EXIT_FOUND
    return EXIT_NOT_LOOKED_UP if unknown else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
