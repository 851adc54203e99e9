"""XML files as trees of elements with their lines: no entities, nothing fetched, depth and number bounded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from chakrasim.errors import InputError
from chakrasim.machine.graph.formats.source import Source

MAX_DEPTH: Final = 64
MAX_ELEMENTS: Final = 8_000_000


@dataclass(slots=True)
class Element:
    """An element: its name without a namespace, its attributes, and what stands in it."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, *names: str) -> Iterator[Element]:
        """The children of these names, in order."""
        return (child for child in self.children if child.name in names)

    def below(self) -> Iterator[Element]:
        """All that stands in it, at any depth, in order."""
        for child in self.children:
            yield child
            yield from child.below()


class _Tree:
    """Collects elements as expat reports them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.data
        self.parser.EntityDeclHandler = self.entity
        self.parser.SkippedEntityHandler = self.entity
        self.open: list[Element] = []
        self.root: Element | None = None
        self.count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self.count += 1
        if len(self.open) >= MAX_DEPTH:
            self.source.refuse("elements are nested too deeply", line, expected=f"at most {MAX_DEPTH} levels")
        if self.count > MAX_ELEMENTS:
            self.source.refuse("too many elements", line, expected=f"at most {MAX_ELEMENTS:,}")
        element = Element(name.rpartition(":")[2], attributes, line)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, _: str) -> None:
        self.open.pop()

    def data(self, text: str) -> None:
        if self.open and (self.open[-1].text or not text.isspace()):
            self.open[-1].text += text

    def entity(self, name: str, *_: object) -> None:
        self.source.refuse(
            "an entity of the file's own is not read", self.parser.CurrentLineNumber, found=name,
            expected="text without entities of its own", remedy="write out what it stands for",
        )  # fmt: skip


def read_tree(data: bytes, source: Source) -> Element:
    """The root element. Raises InputError with the line."""
    tree = _Tree(source)
    try:
        tree.parser.Parse(data, True)
    except expat.ExpatError as error:
        source.refuse(f"no well-formed XML: {expat.errors.messages[error.code]}", error.lineno)
    except (LookupError, ValueError) as error:
        source.refuse(f"no readable XML: {error}")
    assert tree.root is not None
    return tree.root


def needed(element: Element, key: str, source: Source) -> str:
    """An attribute that must be there."""
    value = element.attributes.get(key, "")
    if not value:
        source.refuse(f"<{element.name}> has no {key}", element.line, expected=f'{key}="..."')
    return value


def refuse_misplaced(
    root: Element, inside: Mapping[str, Collection[str]], source: Source, free: Collection[str] = ()
) -> None:
    """Raise InputError for an element in one that may not hold it: what is not looked for there would be lost.

    ``inside`` has the names that each element may hold; in others there is nothing. Where there are elements that are
    ``free``, these and those of other programs below them hold what they like, but nothing of ``inside``.
    """
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if not element.children:
            continue
        known = inside.get(element.name, ())
        is_free = element.name in free or (bool(free) and element.name not in inside)
        for child in element.children:
            if child.name in known or (is_free and child.name not in inside):
                continue
            expected = ", ".join(f"<{name}>" for name in known) or "nothing of the kind"
            found = f"<{child.name}> in <{element.name}>"
            source.refuse("this element is not read here", child.line, found=found, expected=expected)
        waiting += reversed(element.children)


def fit(text: str, file: str) -> str:
    """The same text. Raises InputError for what XML cannot hold."""
    if text.isprintable():
        return text
    raise InputError(
        "a name has a character that XML cannot hold", file=file, found=ascii(text[:40]), remedy="write it as json"
    )


def quoted_attribute(text: str, file: str) -> str:
    """The value of an attribute, with its quotes."""
    return quoteattr(fit(text, file))
