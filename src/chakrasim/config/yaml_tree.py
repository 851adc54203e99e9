"""YAML text to plain data, from the parser's event stream.

The tree is built with a stack of its own, so that nesting is bounded and aliases are shared, not copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

import yaml

from chakrasim.config.values import MAX_DEPTH, Scalar, describe, step
from chakrasim.errors import InputError
from chakrasim.files.job_formats import refuse_job

_CORE_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")} | {"!"}


@dataclass
class _Open:
    """A YAML collection under construction."""

    items: dict[str, object] | list[object]
    path: str
    anchor: str | None
    key: Scalar | None = None


def decode(data: bytes, file: str, lines: dict[str, int] | None = None) -> object:
    """Decode one YAML document into mappings, lists and :class:`Scalar` leaves.

    ``lines`` is filled with the line of every value by its JSON path. Raises :class:`InputError` with line and column
    for bad syntax, repeated keys, unknown tags and a second document.
    """
    refuse_job(data, file, "YAML")
    try:
        return _build_yaml(_events(data), file, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1} column {mark.column + 1}" if mark else None
        raise InputError(f"not YAML: {error.problem or error.context}", file=file, place=place) from None
    except yaml.reader.ReaderError as error:
        place = f"byte {error.position}" if isinstance(error.position, int) else None
        text = f"not YAML: {error.reason}"
        raise InputError(text, file=file, place=place, expected="text in UTF-8 without control characters") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = (str(error).splitlines() or ["unreadable"])[0]
        raise InputError(f"not YAML: {first[:60]}", file=file) from None


def _events(data: bytes) -> Iterator[Any]:
    """The parser's events. libyaml bounds the depth itself since PyYAML 6.0.4, and looks so far ahead that it says so
    before it has given what is nested too deep for us; Python's own parser gives that."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    given = 0
    try:
        for event in yaml.parse(data, Loader=loader):
            given += 1
            yield event
    except yaml.MarkedYAMLError as error:
        if "nesting depth" not in str(error.problem):
            raise
        yield from islice(yaml.parse(data, Loader=yaml.SafeLoader), given, None)


def _build_yaml(events: Any, file: str, lines: dict[str, int] | None) -> object:
    root: list[object] = []
    stack: list[_Open] = []
    anchors: dict[str, object] = {}
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent) and root:
            _fail_yaml(event, file, "a second YAML document; one is expected")
        elif isinstance(event, yaml.AliasEvent):
            if any(level.anchor == event.anchor for level in stack):
                _fail_yaml(event, file, f"the alias *{event.anchor} stands inside what it names")
            if event.anchor not in anchors:
                _fail_yaml(event, file, f"the alias *{event.anchor} names nothing above it")
            path = _attach(stack, root, anchors[event.anchor], event, file)
        elif isinstance(event, yaml.ScalarEvent):
            _check_tag(event, file)
            scalar = Scalar(event.value, quoted=not event.implicit[0])
            if event.anchor is not None:
                anchors[event.anchor] = scalar
            path = _attach(stack, root, scalar, event, file)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            _check_tag(event, file)
            if len(stack) >= MAX_DEPTH:
                _fail_yaml(event, file, f"nested deeper than {MAX_DEPTH} levels")
            items: dict[str, object] | list[object] = {} if isinstance(event, yaml.MappingStartEvent) else []
            path = _attach(stack, root, items, event, file)
            stack.append(_Open(items, path, event.anchor))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            closed = stack.pop()
            if closed.anchor is not None:
                anchors[closed.anchor] = closed.items
            continue
        else:
            continue
        if lines is not None:
            lines.setdefault(path, event.start_mark.line + 1)
    return root[0] if root else None


def _attach(stack: list[_Open], root: list[object], value: object, event: Any, file: str) -> str:
    """Put a finished or opened value where it belongs; returns its path."""
    if not stack:
        root.append(value)
        return "$"
    level = stack[-1]
    if isinstance(level.items, list):
        level.items.append(value)
        return f"{level.path}[{len(level.items) - 1}]"
    if level.key is None:
        if not isinstance(value, Scalar):
            _fail_yaml(event, file, f"a key of {level.path} is {describe(value)}; keys are plain words")
        elif value in level.items:
            _fail_yaml(event, file, f"the key {describe(value)} is there twice")
        else:
            level.key = value
        return level.path
    key = str(level.key)
    level.key = None
    level.items[key] = value
    return level.path + step(key)


def _check_tag(event: Any, file: str) -> None:
    if event.tag is not None and event.tag not in _CORE_TAGS:
        _fail_yaml(event, file, f"the tag {describe(event.tag)} is not accepted")


def _fail_yaml(event: Any, file: str, message: str) -> NoReturn:
    mark = event.start_mark
    raise InputError(message, file=file, place=f"line {mark.line + 1} column {mark.column + 1}")
