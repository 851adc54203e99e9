"""Every help: a summary, and examples that the command itself accepts."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from importlib import import_module

import pytest

from chakrasim.cli.analyze.main import ANALYSES
from chakrasim.cli.main import COMMANDS, EXAMPLES, _parsers, main
from chakrasim.cli.options import prepare

MODULES = [
    *(f"{name.replace('-', '_')}{'.main' if name in ('analyze', 'what-if') else ''}" for name in COMMANDS),
    *(f"analyze.{name.replace('-', '_')}" for name in ANALYSES),
]


def examples(text: str) -> Iterator[list[str]]:
    """The words behind ``chakrasim`` of every example."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip().startswith("chakrasim "):
            yield shlex.split(line.partition(" > ")[0], comments=True)[1:]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_accepted(name: str) -> None:
    module = import_module(f"chakrasim.cli.{name}")
    given = list(examples(module.EXAMPLES))
    command = tuple(name.removesuffix(".main").replace("_", "-").split("."))
    assert any(tuple(words[: len(command)]) == command for words in given)
    assert_accepted(given)


def test_examples_of_the_whole_command_are_accepted() -> None:
    assert_accepted(list(examples(EXAMPLES)))


def assert_accepted(given: list[list[str]]) -> None:
    parser, _ = _parsers(COMMANDS)
    for words in given:
        options, unknown = parser.parse_known_args(prepare(words))
        assert not unknown, words
        assert callable(options.run)


@pytest.mark.parametrize("name", MODULES)
def test_summaries_are_one_plain_sentence(name: str) -> None:
    summary = import_module(f"chakrasim.cli.{name}").SUMMARY
    assert summary[0].isupper()
    assert not summary.endswith(".")
    assert len(summary) <= 100


def test_every_option_is_explained() -> None:
    parser, _ = _parsers(COMMANDS)
    unexplained = [action.dest for own in all_parsers(parser) for action in own._actions if not action.help]
    assert set(unexplained) <= {"command", "analysis", "kind"}


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for own in action.choices.values():
                yield from all_parsers(own)


def test_helps_fit_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 120
