"""Completion scripts and manual pages, made from the parser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

from api.cli.program import EXIT_OK, EXIT_USAGE
from connect.version import VERSION

__all__ = ["add_completion_options", "add_manual_options", "print_completion", "print_manual"]

SHELLS = ("bash", "zsh", "fish")


def add_completion_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def print_completion(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the script. Returns the exit code."""
    import shtab

    print(shtab.complete(parser, shell=arguments.shell))
    return EXIT_OK


def add_manual_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("page", nargs="?", metavar="COMMAND", help="the subcommand (default: all)")


def print_manual(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the page in the format of man(7). Returns the exit code."""
    commands = _subcommands(parser)
    if arguments.page is None:
        sys.stdout.writelines(f"{line}\n" for line in _page(parser, commands))
        return EXIT_OK
    if arguments.page not in commands:
        known = ", ".join(commands)
        print(f"{parser.prog}: no command {arguments.page}: use one of {known}", file=sys.stderr)
        return EXIT_USAGE
    sys.stdout.writelines(f"{line}\n" for line in _page(commands[arguments.page], {}))
    return EXIT_OK


def _subcommands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _page(
    parser: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser]
) -> Iterator[str]:
    name = parser.prog.replace(" ", "-")
    yield f'.TH "{name.upper()}" "1" "" "{VERSION}" "User Commands"'
    yield ".SH NAME"
    yield _text(f"{name} - {_lower_first(parser.description or '').rstrip('.')}")
    yield ".SH SYNOPSIS"
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    yield f".B {_text(parser.prog)}"
    yield _text(usage.removeprefix(parser.prog).strip())
    yield ".SH OPTIONS"
    yield from _options(parser)
    if commands:
        yield ".SH COMMANDS"
        for key, command in commands.items():
            yield f'.SS "{_text(key)}"'
            yield _text(command.description or "")
            yield from _options(command)
    yield ".SH EXIT STATUS"
    yield _text((parser.epilog or "").removeprefix("Exit codes: "))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        yield ".TP"
        yield f".B {_text(_invocation(action))}"
        yield _text(parser._get_formatter()._expand_help(action) if action.help else "")


def _invocation(action: argparse.Action) -> str:
    if action.choices is not None:
        value = "{" + ",".join(str(choice) for choice in action.choices) + "}"
    else:
        value = str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _text(text: str) -> str:
    """Escape what roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
