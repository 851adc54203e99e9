"""What a captured program finds under `torch.distributed`: a process group of any size, with one real member."""

from __future__ import annotations

import hashlib
import pickle
import sys
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Reducer
from torch.distributed import device_mesh
from torch.distributed import distributed_c10d as c10d

from chakrasim.collect.capturing.pretended.device import HOST_LITERALS
from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.collect.capturing.recorded.calls import Call, ranks_of_group
from chakrasim.collect.capturing.recorded.listener import Listener

Objects = dict[tuple[str, int, int, int], bytes]
"""Pickled objects by (kind, sender, receiver or -1, how many of these before)."""


HOST_VALUES: Final = 1 << 16
"""More host values than this are not passed on to other ranks."""


class NeedsRank(BaseException):
    """The program waits for an object of a rank that has not been captured yet."""

    def __init__(self, rank: int, sent: Objects) -> None:
        self.rank = rank
        self.sent = sent
        super().__init__(rank)


class Distributed:
    """Puts itself in the place of `torch.distributed`'s entry points.

    Attributes
    ----------
    sent: objects that this rank sent or broadcast.
    lacking: the first rank that has broadcast host values that are not known, as it has not been captured; None.
    """

    def __init__(self, rank: int, world: int, listener: Listener, received: Objects) -> None:
        self.rank = rank
        self.world = world
        self.listener = listener
        self.received = received
        self.sent: Objects = {}
        self.lacking: int | None = None
        listener.pass_on = self._broadcast_values
        self._backend = "nccl"
        self._next: dict[tuple[str, int, int], int] = {}

    def install(self, made: Patches) -> None:
        """Replace the entry points."""
        made.around(device_mesh, "init_process_group", self._init)
        for module in (dist, c10d):
            made.around(module, "init_process_group", self._init)
            made.set(module, "is_nccl_available", lambda: True)
            made.around(module, "batch_isend_irecv", self._batch)
            made.around(module, "all_reduce", self._all_reduce)
            for name in ("all_gather_object", "gather_object", "scatter_object_list", "broadcast_object_list"):
                made.set(module, name, getattr(self, "_" + name))
            made.set(module, "send_object_list", self._send_object_list)
            made.set(module, "recv_object_list", self._recv_object_list)
        made.set(dist, "get_backend", lambda group=None: self._backend)
        made.around(c10d, "_new_group_with_tag", self._new_group)
        self._meshes(made)
        self._pipelines(made)
        self._data_parallel(made)

    def _init(self, original: Any, *args: Any, **kwargs: Any) -> None:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        asked = kwargs.get("backend") or (args[0] if args else None)
        self._backend = str(asked or "nccl").rpartition(":")[2]
        ranks = kwargs.get("world_size", -1)
        if ranks not in (-1, self.world):
            self._count(f"init_process_group asked for {ranks} ranks, and got {self.world:,}")
        original("fake", rank=self.rank, world_size=self.world, store=FakeStore())
        group = c10d._get_default_group()
        self.listener.groups.add(None, None, str(group.group_name))

    def _new_group(self, original: Any, ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._without_backend(original, args, kwargs)
        group = original(ranks, *args, **kwargs)
        member = isinstance(group, dist.ProcessGroup)
        self.listener.groups.add(ranks, kwargs.get("group_desc"), str(group.group_name) if member else None)
        return group

    @staticmethod
    def _without_backend(original: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Arguments by name; the back end is that of the first group."""
        import inspect

        names = list(inspect.signature(original).parameters)[1:]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for name in ("backend", "pg_options", "device_id"):
            given.pop(name, None)
        return (), given

    def _batch(self, original: Any, operations: Any) -> Any:
        self.listener.graph.begin_batch()
        try:
            return original(operations)
        finally:
            self.listener.graph.end_batch()

    def _all_reduce(self, original: Any, tensor: Any, op: Any = dist.ReduceOp.SUM, *args: Any, **kwargs: Any) -> Any:
        self.listener.sums = op == dist.ReduceOp.SUM
        try:
            return original(tensor, op, *args, **kwargs)
        finally:
            self.listener.sums = False

    def _meshes(self, made: Patches) -> None:
        """Meshes are of "cpu", the pretended device's name."""
        from torch.distributed.device_mesh import DeviceMesh

        def mesh(original: Any, self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
            original(self, "cpu", *args, **kwargs)

        made.around(DeviceMesh, "__init__", mesh)

    def _pipelines(self, made: Patches) -> None:
        """Stages agree on whether shapes are given: this rank's vote stands for all."""
        try:
            from torch.distributed.pipelining import stage as pipelining
        except ImportError:
            return
        mode: Any = getattr(pipelining, "InferenceMode", None)

        def vote(original: Any, stage: Any, has_backward: bool, **_: Any) -> Any:
            return torch.tensor([0 if mode.needs_dynamic(stage._user_meta, has_backward) else 1], dtype=torch.int32)

        def result(original: Any, stage: Any, received_result: Any = None) -> Any:
            return received_result if received_result is not None else vote(None, stage, True)

        made.around(pipelining._PipelineStageBase, "scale_grads", self._in_backward)
        if mode is not None:
            made.around(pipelining.PipelineStage, "_warmup_forward_vote", vote)
            made.around(pipelining.PipelineStage, "_warmup_backward_result", result)

    def _data_parallel(self, made: Patches) -> None:
        """DistributedDataParallel sees a module on the CPU, DataParallel one GPU; FSDP2 names its streams."""
        from torch.nn.parallel import DistributedDataParallel, data_parallel

        def without_device(original: Any) -> None:
            self.listener.counted["DataParallel: all is computed on the one GPU of its rank"] += 1

        def replicate(original: Any, self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
            for name in ("device_ids", "output_device"):
                kwargs.pop(name, None)
            original(self, module, **kwargs)

        made.around(DistributedDataParallel, "__init__", replicate)
        made.around(sys.modules[data_parallel.__module__], "_get_available_device_type", without_device)
        made.around(Reducer, "_rebuild_buckets", self._rebuild)
        # It exchanges shapes, which all ranks have alike, through the memory of tensors.
        made.set(
            sys.modules[DistributedDataParallel.__module__],
            "_verify_param_shape_across_processes",
            lambda *_, **__: True,
        )
        try:
            from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPCommContext, FSDPParamGroup
        except ImportError:
            return
        for name in ("post_backward", "finalize_backward"):
            made.around(FSDPParamGroup, name, self._in_backward)

        def name_streams(original: Any, self: Any, device: Any) -> None:
            original(self, device)
            for name in ("all_gather_copy_in", "all_gather", "reduce_scatter", "all_reduce"):
                stream = getattr(self, f"{name}_stream", None)
                if stream is not None:
                    stream.rule = f"FSDP2's stream for {name.replace('_', '-')}"

        made.around(FSDPCommContext, "lazy_init", name_streams)

    def _rebuild(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """DistributedDataParallel agrees on its buckets, once, in its second step: no part of a steady step. It writes
        their numbers, one for each parameter, into the memory of tensors."""
        graph, mode = self.listener.graph, self.listener.mode
        before = graph.recording, mode.host_elements
        graph.recording, mode.host_elements = False, HOST_LITERALS
        try:
            return original(*args, **kwargs)
        finally:
            graph.recording, mode.host_elements = before

    def _in_backward(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """What belongs to the backward pass and runs after it."""
        graph = self.listener.graph
        before, graph.override = graph.override, "backward"
        try:
            return original(*args, **kwargs)
        finally:
            graph.override = before

    def _count(self, name: str) -> None:
        self.listener.counted[name] += 1

    def _all_gather_object(self, objects: Any, value: Any, group: Any = None) -> None:
        self._count("all_gather_object: copies of the own object")
        for position in range(len(objects)):
            objects[position] = pickle.loads(pickle.dumps(value))

    def _gather_object(self, value: Any, objects: Any = None, *args: Any, **kwargs: Any) -> None:
        self._count("gather_object: copies of the own object")
        for position in range(len(objects or ())):
            objects[position] = pickle.loads(pickle.dumps(value))

    def _scatter_object_list(self, output: Any, values: Any = None, *args: Any, **kwargs: Any) -> None:
        self._count("scatter_object_list: the own object of the given ones")
        if values:
            output[0] = values[self.rank % len(values)]

    def _broadcast_object_list(
        self, objects: Any, src: Any = None, group: Any = None, device: Any = None, group_src: Any = None
    ) -> None:
        source = self._global(group, src, group_src)
        self._count("broadcast_object_list")
        key = self._key("broadcast", source, -1)
        if source == self.rank:
            self.sent[key] = pickle.dumps(list(objects))
        else:
            self._take(key, objects)

    def _broadcast_values(self, call: Call) -> None:
        """Without the values of the root the own ones stay."""
        members = ranks_of_group(call.handle)
        source = members[call.peer]
        group = hashlib.blake2b(repr(members).encode(), digest_size=8).hexdigest()
        key = self._key(f"values {group}", source, -1)
        if source == self.rank:
            if sum(tensor.numel() for tensor in call.writes) <= HOST_VALUES:
                self.sent[key] = pickle.dumps([tensor.tolist() for tensor in call.writes])
        elif key in self.received:
            for tensor, value in zip(call.writes, pickle.loads(self.received[key]), strict=False):
                tensor.copy_(torch.tensor(value, dtype=tensor.dtype))
        elif self.lacking is None and not any(sender == source for _, sender, _, _ in self.received):
            self.lacking = source

    def _send_object_list(
        self, objects: Any, dst: Any = None, group: Any = None, device: Any = None, group_dst: Any = None, **_: Any
    ) -> None:
        self._count("send_object_list")
        target = self._global(group, dst, group_dst)
        self.sent[self._key("send", self.rank, target)] = pickle.dumps(list(objects))

    def _recv_object_list(
        self, objects: Any, src: Any = None, group: Any = None, device: Any = None, group_src: Any = None, **_: Any
    ) -> int:
        self._count("recv_object_list")
        source = self._global(group, src, group_src)
        self._take(self._key("send", source, self.rank), objects)
        return source

    def _take(self, key: tuple[str, int, int, int], objects: Any) -> None:
        if key not in self.received:
            raise NeedsRank(key[1], self.sent)
        objects[:] = pickle.loads(self.received[key])

    def _key(self, kind: str, source: int, target: int) -> tuple[str, int, int, int]:
        number = self._next.get((kind, source, target), 0)
        self._next[(kind, source, target)] = number + 1
        return kind, source, target, number

    def _global(self, group: Any, rank: Any, group_rank: Any) -> int:
        if rank is not None:
            return int(rank)
        if group_rank is None:
            return 0
        return int(dist.get_global_rank(group or c10d._get_default_group(), int(group_rank)))
