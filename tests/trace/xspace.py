"""XSpaces: the official protobuf library with the schema of tsl/profiler/protobuf/xplane.proto, built at run time."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
_MESSAGES = {
    "XSpace": "1 planes XPlane*, 2 errors string*, 3 warnings string*, 4 hostnames string*",
    "XPlane": "1 id int64, 2 name string, 3 lines XLine*, 4 event_metadata EventEntry*, 5 stat_metadata StatEntry*, "
    "6 stats XStat*",
    "EventEntry": "1 key int64, 2 value XEventMetadata",
    "StatEntry": "1 key int64, 2 value XStatMetadata",
    "XLine": "1 id int64, 2 name string, 3 timestamp_ns int64, 4 events XEvent*, 9 duration_ps int64, "
    "10 display_id int64, 11 display_name string",
    "XEvent": "1 metadata_id int64, 2 offset_ps int64 data, 3 duration_ps int64, 4 stats XStat*, "
    "5 num_occurrences int64 data",
    "XStat": "1 metadata_id int64, 2 double_value double value, 3 uint64_value uint64 value, "
    "4 int64_value int64 value, 5 str_value string value, 6 bytes_value bytes value, 7 ref_value uint64 value",
    "XEventMetadata": "1 id int64, 2 name string, 3 metadata bytes, 4 display_name string, 5 stats XStat*, "
    "6 child_id int64*",
    "XStatMetadata": "1 id int64, 2 name string, 3 description string",
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package="x", syntax="proto3")
    for name, text in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind, *oneof in (entry.split() for entry in text.split(", ")):
            made = message.field.add(name=field, number=int(number), label=_F.LABEL_OPTIONAL)
            if kind.endswith("*"):
                made.label = _F.LABEL_REPEATED
            if kind.rstrip("*") in _MESSAGES:
                made.type, made.type_name = _F.TYPE_MESSAGE, f".x.{kind.rstrip('*')}"
            else:
                made.type = getattr(_F, f"TYPE_{kind.rstrip('*').upper()}")
            if oneof:
                if not message.oneof_decl:
                    message.oneof_decl.add(name=oneof[0])
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"x.{name}")) for name in _MESSAGES}


XSpace = _classes()["XSpace"]


class Maker:
    """Makes an XSpace, a plane and a line at a time."""

    def __init__(self) -> None:
        self.space = XSpace(hostnames=["node0"])

    def line(self, plane: str, name: str, events: list[tuple[Any, ...]], at_ns: int = 1000, line: int = 0) -> Any:
        """Events (name, offset ps, duration ps, {name of a value: value}) on a line; an integer offset of None: an
        event that is counted only. A text that begins with ``@`` is kept in the table of names."""
        found = [one for one in self.space.planes if one.name == plane]
        here = found[0] if found else self.space.planes.add(name=plane, id=len(self.space.planes))
        made = here.lines.add(id=line or len(here.lines) + 1, name=name, timestamp_ns=at_ns)
        for text, offset, duration, *values in events:
            event = made.events.add(metadata_id=self._key(here.event_metadata, text), duration_ps=duration)
            if offset is None:
                event.num_occurrences = duration
            else:
                event.offset_ps = offset
            for key, value in (values[0] if values else {}).items():
                stat = event.stats.add(metadata_id=self._key(here.stat_metadata, key))
                if isinstance(value, str) and value.startswith("@"):
                    stat.ref_value = self._key(here.stat_metadata, value[1:])
                else:
                    kind = {int: "uint64_value", str: "str_value", float: "double_value", bytes: "bytes_value"}
                    setattr(stat, kind[type(value)], value)
        return here

    def _key(self, table: Any, text: str) -> int:
        for entry in table:
            if entry.value.name == text:
                return int(entry.key)
        entry = table.add(key=len(table) + 1)
        entry.value.id, entry.value.name = entry.key, text
        return int(entry.key)

    def bytes(self) -> bytes:
        return bytes(self.space.SerializeToString())


def gpu_space() -> Maker:
    """Two GPUs, launches, a copy, a step, Python, and a line that is derived."""
    made = Maker()
    for device in (0, 1):
        kernels = [("fusion.1", 2_000_000, 1_500_500, {"correlation_id": 10 + device, "hlo_op": "@fusion.1"})]
        kernels += [("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 4_000_000, 900_000, {"correlation_id": 20 + device})]
        made.line(f"/device:GPU:{device}", f"Stream #{7 + device}(Compute)", kernels)
        made.line(f"/device:GPU:{device}", "XLA Modules", [("jit_step(1)", 1_000_000, 9_000_000)])
        copy = {"correlation_id": 30 + device, "memcpy_details": f"@kind:D2H size:{4096 + device} dest:0 async:1"}
        made.line(f"/device:GPU:{device}", "Stream #9(Memcpy)", [("MemcpyD2H", 6_000_000, 100_000, copy)])
        calls = [("cuLaunchKernel", 1_000_000, 200_000, {"correlation_id": 10 + device, "wait": 1.5, "raw": b"\xff"})]
        calls += [("cuLaunchKernel", 1_300_000, 200_000, {"correlation_id": 20 + device})]
        calls += [("cuMemcpyDtoHAsync_v2", 1_600_000, 200_000, {"correlation_id": 30 + device})]
        made.line("/host:CPU", "python3", [("train", 0, 9_000_000, {"step_num": 5}), ("$f.py:1 f", 100, 90), *calls])
    return made


def tpu_space() -> Maker:
    """A TPU whose loop holds a fusion and the ends of an asynchronous all-gather."""
    made = Maker()
    plane = "/device:TPU:1"
    made.line(plane, "Steps", [("7", 0, 10_000_000)])
    made.line(plane, "XLA Modules", [("jit_step(3)", 0, 10_000_000)])
    operations = [("while.1", 1_000_000, 5_000_000), ("all-gather-start.1", 1_000_000, 100_000)]
    operations += [("fusion.2", 1_100_000, 3_000_700), ("all-gather-done.1", 4_100_700, 1_000_300)]
    operations += [("collective-permute.3", 6_500_000, 500_000), ("copy.4", 7_000_000, 250_000)]
    made.line(plane, "XLA Ops", operations)
    made.line(plane, "Async XLA Ops", [("all-gather-start.1", 1_000_000, 4_101_000)])
    made.line("/device:TPU:1 SparseCore 0", "Sparse Core Ops", [("sc.1", 2_000_000, 1_000_000)])
    made.line("/host:CPU", "main", [("PjitFunction(step)", 0, 3_000_000)])
    made.line("/device:CUSTOM:Megascale Trace", "sends", [("send", 0, 1_000_000)])
    made.line("/host:CPU", "counters", [("allocations", None, 12)])
    return made


def random_space(seed: int) -> Maker:
    """Planes of all sorts with any events."""
    draw, made = random.Random(seed), Maker()
    made.line("/host:metadata", "", [])
    for _ in range(draw.randrange(1, 5)):
        plane = draw.choice(("/host:CPU", "/host:x", "/device:GPU:0", "/device:GPU:3", "/device:TPU:0", "other"))
        name = draw.choice(("Stream #4(x)", "XLA Ops", "Steps", "thread"))
        events = []
        for _ in range(draw.randrange(6)):
            values = {key: draw.choice((1, 2**63, "size:9", "@size:7", 0.5, b"x")) for key in draw.sample(_VALUES, 2)}
            offset = draw.choice((None, draw.randrange(10**9), draw.randrange(-500_000, 10**12)))
            events.append((draw.choice("abc$") + draw.choice(("", "ü", "\n")), offset, draw.randrange(10**7), values))
        made.line(plane, name, events, draw.choice((0, 1000, 1_700_000_000_000_000_000)) + 500)
    return made


_VALUES = ("correlation_id", "memcpy_details", "hlo_op", "run_id")
