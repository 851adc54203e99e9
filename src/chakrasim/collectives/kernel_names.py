"""Whether a kernel communicates, and what, by its name alone: for linking, analyses and the doctor.

A name is read as its function and its namespaces: return type, arguments of templates and of the call say nothing.
Names come as C++ (``void (anonymous namespace)::two_shot_all_reduce_kernel<float>``), mangled (``_ZN4vllm...``, as ROCm
records them), or as a plain word. Words are told apart by underscores and by capitals, so that ``small_reduce`` is no
all-reduce.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from chakrasim.collectives.kinds import KINDS
from chakrasim.trace.kinds import COALESCED, RECV, SEND, UNKNOWN, CollectiveType

_ANONYMOUS: Final = re.compile(r"\(anonymous namespace\)|\{anonymous\}|`anonymous namespace'")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|::")
_MANGLED_PART: Final = re.compile(r"(?:St)?(\d{1,4})")

#: Libraries, by words in the function's name or a namespace. DeepEP's copies live in namespaces of many names that end
#: in ``ep``; what SGLang calls ``deepep_permute`` and so on moves data within one device.
_LIBRARY: Final = re.compile(
    r"_(?:nccl|rccl|msccl|nvshmem|rocshmem|hccl|xccl|oneccl|uccl|k?userbuffers)"
    r"|_(?:mori|nixl|gloo|ucc|hcom|mnnvl|moe_comm|symmetric_memory)_"
    r"|_ep_::|_(?:intra|inter)node_(?:ll_)?::|_deep_?ep_(?!permute|post_reorder|run_moe)|_ep_(?:dispatch|combine)_"
    r"|_(?:barrier|sync|rdxn|fcollect|broadcast)_(?:all_)?on_stream_"
    r"|^_(?:send|recv)(?:_done)?(?:_\d+)?_$"  # XLA's operations
    r"|^_comm_|^_(?:(?:forward|backward|cross_mesh)_)+(?:send|recv)_"  # lanes of dPRO and veScale
)
#: Collectives that people write themselves: symmetric memory, vLLM, SGLang, TensorRT-LLM, FlashInfer, AITER.
_COLLECTIVE: Final = re.compile(
    r"(?<!_warp)(?<!_block)(?<!_thread)(?<!_lane)(?<!_wave)(?<!_cta)(?<!_cluster)(?<!_group)(?<!_local)"
    r"_(?!warp|block|thread|lane|wave|cta|cluster|group|local|small)[a-z]*"
    r"(?:(?<=_)all_reduce|allreduce|(?<=_)all_gather|allgather|(?<=_)all_(?:to|2)_all|alltoall|(?<=_)a_2_a_"
    r"|(?<=_)reduce_scatter|reducescatter|(?<=_)cross_device_|(?<=_)multimem_"
    r"|(?<=_)collective_(?:permute|broadcast|start|done)_)"
)
#: What a kernel computes besides if it is more than the collective and what is done to each element. dPRO names
#: communication after the operator whose gradients it carries.
_PRODUCT: Final = re.compile(
    r"^(?!_comm_).*_(?:[a-z]*gemm[a-z]*|matmul|b?mm|xdl|xdlops|wmma|mfma|conv|attention|attn|fmha|mlp)_"
)


_IN_KERNELS: Final = [(part, number) for number, kind in KINDS.items() for part in kind.in_kernels]
#: What NCCL does with its kernel SendRecv.
_BY_MESSAGES: Final = frozenset(
    (SEND, RECV, UNKNOWN, COALESCED, CollectiveType.ALL_TO_ALL, CollectiveType.GATHER, CollectiveType.SCATTER)
)


@lru_cache(maxsize=4096)
def is_communication_kernel(name: str) -> bool:
    """Whether a kernel of this name communicates and does not compute in earnest."""
    return _has_collective(name) and not _PRODUCT.search(words(name))


@lru_cache(maxsize=4096)
def is_fused_kernel(name: str) -> bool:
    """Whether a kernel of this name is a matrix product, convolution or attention and a collective in one."""
    return _has_collective(name) and _PRODUCT.search(words(name)) is not None


def _has_collective(name: str) -> bool:
    # Inductor names its fused kernels after all operators in them, those before and after a collective too.
    if name.startswith("triton_"):
        return False
    text = words(name)
    return _LIBRARY.search(text) is not None or _COLLECTIVE.search(text) is not None


@lru_cache(maxsize=1024)
def operation_of_kernel(name: str) -> int:
    """What a kernel does by its name alone; UNKNOWN for ``SendRecv`` (send, receive, all-to-all, batch) and others."""
    letters = re.sub("[^a-z]", "", qualified_name(name).lower())
    if "sendrecv" in letters:
        return UNKNOWN
    return next((kind for part, kind in _IN_KERNELS if part in letters), UNKNOWN)


def can_carry_out(kernel: str, operation: int) -> bool:
    """Whether a kernel of this name can carry out what a record says."""
    named = operation_of_kernel(kernel)
    if "sendrecv" in kernel.lower():
        return operation in _BY_MESSAGES
    if named == UNKNOWN or operation in (UNKNOWN, COALESCED):
        return True
    # NCCL's barrier is an all-reduce of one element.
    return named == operation or (operation == CollectiveType.BARRIER and named == CollectiveType.ALL_REDUCE)


@lru_cache(maxsize=4096)
def words(name: str) -> str:
    """The words of a kernel's qualified name in lower case between underscores: ``_at_::_native_::_all_reduce_``."""
    return "_" + "_".join(_WORD.findall(qualified_name(name))).lower() + "_"


def qualified_name(name: str) -> str:
    """The name of a kernel with its namespaces, without anonymous ones and without arguments."""
    if name.startswith("_Z"):
        return "::".join(_mangled_parts(name))
    kept, depth = [], 0
    for letter in _ANONYMOUS.sub("", name):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif depth == 0:
            if letter == "(":
                break
            kept.append(letter)
    return "".join(kept)


def _mangled_parts(name: str) -> list[str]:
    """The namespaces and the function of a mangled name, as far as no template comes between."""
    at = 2
    if name[at : at + 1] == "N":
        at += 1
        while name[at : at + 1] in ("K", "V", "r"):
            at += 1
    parts = []
    while match := _MANGLED_PART.match(name, at):
        at = match.end() + int(match[1])
        parts.append(name[match.end() : at])
    return [part for part in parts if not part.startswith("_GLOBAL_")]
