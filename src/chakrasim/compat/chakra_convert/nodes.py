"""A node of a linked trace as the reference converter takes it, and what of the Chakra node depends on it alone."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from chakrasim.compat.chakra_convert import wire

INTEGERS: Final = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
#: Fields of a node that an entry of its ``attrs`` replaces.
REPLACEABLE: Final = frozenset(
    ("id", "name", "inputs", "outputs", "exclusive_dur", "inter_thread_dep", "cat", "stream", "pg_name", "parent")
)
#: What the reference ends with where a value is not what it expects.
FAULTS: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError)


class LinkedNode(NamedTuple):
    """A node of a linked trace.

    ``parent``, ``waits_for`` and ``stream`` are as the file has them; ``group`` is "" where there is none. ``duration``
    in us. ``head`` and ``tail`` are the Chakra node's bytes before its type and after its dependencies. ``inputs``:
    only where the size of a collective is computed from them. ``fault``: class and text of the exception with which
    the reference converter ends when it comes to this node; None in a sound one.
    """

    id: Any
    name: str
    parent: Any
    is_gpu: bool
    is_metadata: bool
    waits_for: Any
    group: Any
    tid: Any
    stream: Any
    duration: int
    head: bytes
    tail: bytes
    inputs: Any
    fault: tuple[str, str] | None


class Encoder:
    """Makes nodes, and each repeated part of one only once."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}
        self._names: dict[str, bytes] = {}
        self._numbers: dict[tuple[str, int], bytes] = {}

    def node(self, data: Any) -> LinkedNode:
        """The node in a decoded JSON object. Raises what the reference converter raises for it in any case."""
        own = {entry["name"]: entry["value"] for entry in data.get("attrs", ())}
        if not REPLACEABLE.isdisjoint(own):
            if "id" in own:
                raise ValueError("an entry of attrs is called 'id'")
            data.update({"ctrl_deps" if key == "parent" else key: own[key] for key in own.keys() & REPLACEABLE})
        identity, name, parent = data["id"], data["name"], data["ctrl_deps"]
        inputs, outputs = data["inputs"], data["outputs"]
        stream = data.get("stream", 0)
        is_gpu = data.get("cat") is not None
        fault = None
        duration, head, ports, attributes = 0, b"", b"", b""
        try:
            duration = micros(data.get("exclusive_dur", 0), name)
            head = self.head(identity, name)
            ports = self._port(wire.INPUTS, inputs) + self._port(wire.OUTPUTS, outputs)
            attributes = self._attributes(own, is_gpu, stream)
        except FAULTS as reason:
            # Only a fault if the reference converter comes to this node.
            fault = type(reason).__name__, str(reason)
        return LinkedNode(
            identity,
            name,
            parent,
            is_gpu,
            "process_group:init" in name,
            data.get("inter_thread_dep"),
            data.get("pg_name", ""),
            own.get("tid"),
            stream,
            duration,
            head,
            (wire.DURATION + wire.varint(duration) if duration else b"") + ports + attributes,
            inputs if is_gpu and "nccl" in name else None,
            fault,
        )

    def head(self, identity: Any, name: str) -> bytes:
        """The bytes of id and name. Raises what the reference's protobuf raises."""
        if isinstance(identity, bool) or not isinstance(identity, int):
            raise TypeError(f"the id is no integer but {identity!r}")
        if not 0 <= identity < 1 << 64:
            raise ValueError(f"the id is out of range: {identity}")
        known = self._names.get(name)
        if known is None:
            raw = name.encode()
            known = self._names[name] = wire.block(wire.NAME, raw) if raw else b""
        return b"\x08" + wire.varint(identity) + known if identity else known

    def text(self, text: str) -> bytes:
        """A text with its length before it."""
        known = self._texts.get(text)
        if known is None:
            raw = text.encode()
            known = self._texts[text] = wire.varint(len(raw)) + raw
        return known

    def stream(self, stream: Any) -> bytes:
        """The attribute ``stream``, nothing for None."""
        if stream is None:
            return b""
        return self._number("stream", stream)

    def _port(self, tag: bytes, port: dict[str, Any]) -> bytes:
        values, shapes, types = str(port["values"]), str(port["shapes"]), str(port["types"])
        raw = values.encode()
        parts = (
            wire.block(b"\x0a", raw) if raw else b"",
            b"\x12" + self.text(shapes) if shapes else b"",
            b"\x1a" + self.text(types) if types else b"",
        )
        return wire.block(tag, b"".join(parts))

    def _attributes(self, own: dict[str, Any], is_gpu: bool, stream: Any) -> bytes:
        parts = []
        for name in INTEGERS:
            if name not in own:
                raise AttributeError(f"there is no attribute {name!r}")
            parts.append(self._number(name, own[name]))
        if "op_schema" not in own:
            raise AttributeError("there is no attribute 'op_schema'")
        parts += (text_attribute("op_schema", own["op_schema"]), ON_DEVICE if is_gpu else ON_HOST, self.stream(stream))
        return b"".join(parts)

    def _number(self, name: str, value: Any) -> bytes:
        if type(value) is not int:
            return int64_attribute(name, value)
        known = self._numbers.get((name, value))
        if known is None:
            known = self._numbers[name, value] = int64_attribute(name, value)
        return known


def micros(duration: Any, name: str) -> int:
    """The duration of a node, whole microseconds. Raises what the reference raises."""
    whole = int(duration)
    if not 0 <= whole < 1 << 64:
        raise ValueError(f"the duration {whole} is out of range")
    return 0 if "Optimizer.step" in name else whole


def int64_attribute(name: str, value: object) -> bytes:
    """An integer attribute. Raises what the reference's protobuf raises for a value of another type."""
    if value is None:
        return wire.empty_attribute(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"the attribute {name!r} is no integer but {value!r}")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"the attribute {name!r} is out of range: {value}")
    return wire.int64_attribute(name, value)


def text_attribute(name: str, value: object) -> bytes:
    """A text attribute. Raises what the reference's protobuf raises for a value of another type."""
    if value is None:
        return wire.empty_attribute(name)
    if not isinstance(value, str):
        raise TypeError(f"the attribute {name!r} is no text but {value!r}")
    return wire.text_attribute(name, value.encode())


ON_HOST: Final = wire.truth_attribute("is_cpu_op", True)
ON_DEVICE: Final = wire.truth_attribute("is_cpu_op", False)
