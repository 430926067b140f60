"""MkDocs hooks of the documentation site: they add a copy of Mermaid and forbid requests to other
hosts.

Material for MkDocs loads Mermaid from a content delivery network unless the page has it already. So
the site gets its own copy, from a pinned jar in the user's cache.
"""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from deploy.brokers.artifacts import fetch_jars, read_lock
from deploy.brokers.errors import DownloadFailed

__all__ = ["on_config", "on_files", "on_post_page"]

_LOCK = Path(__file__).with_name("mermaid.lock")
_SCRIPT = "assets/javascripts/mermaid.min.js"
_FOREIGN = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>"""
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Load our copy of Mermaid before Material looks for it."""
    config.extra_javascript = [*config.extra_javascript, _SCRIPT]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the script. Raises `PluginError` if it is not in the cache and cannot be downloaded."""
    (mermaid,) = read_lock(_LOCK.read_text())
    try:
        (jar,) = fetch_jars([mermaid], "documentation")
    except DownloadFailed as error:
        raise PluginError(str(error)) from error
    path = f"META-INF/resources/webjars/{mermaid.name}/{mermaid.version}/dist/mermaid.min.js"
    with ZipFile(jar) as archive:
        files.append(File.generated(config, _SCRIPT, content=archive.read(path)))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Raise `PluginError` if the page loads anything from another host."""
    for tag in _FOREIGN.findall(output):
        if 'rel="canonical"' not in tag:
            raise PluginError(f"{page.file.src_uri} loads from another host: {tag}")
    return output
