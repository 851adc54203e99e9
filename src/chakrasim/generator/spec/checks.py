"""Whether the parts of a spec go together."""

from __future__ import annotations

from typing import Final

from chakrasim.config.section import Section
from chakrasim.generator.spec.spec import Spec

MOST_PASSES: Final = 200_000
"""Layers times micro-batches: 26 to some fifty nodes each, and a kilobyte of memory for a node while it is made."""
MOST_RANKS: Final = 2**20


def check_spec(spec: Spec, root: Section) -> None:
    """Raise InputError, at the key to change, for values that do not go together."""
    _size(spec, root)
    _tensor(spec, root)
    _pipeline(spec, root)
    _experts(spec, root)
    _attention(spec, root)
    _hybrid(spec, root)
    _adapters(spec, root)
    _sharding(spec, root)
    _offload(spec, root)


def _divides(root: Section, key: str, part: int, whole: int, what: str, remedy: str = "") -> None:
    if whole % part:
        root.fail(("parallel", key), f"{key} does not divide {what} ({whole})", found=part, remedy=remedy)


def _size(spec: Spec, root: Section) -> None:
    passes = spec.model.layers * spec.batch.micro_batches
    if passes > MOST_PASSES:
        message = f"layers x micro-batches ({spec.batch.micro_batches}) are more than a trace should have"
        root.fail(
            ("model", "layers"), message, found=spec.model.layers, expected=f"a product of at most {MOST_PASSES:,}"
        )
    if spec.parallel.ranks > MOST_RANKS:
        root.fail(
            ("parallel", "dp"),
            "there are too many ranks",
            found=spec.parallel.dp,
            expected=f"at most {MOST_RANKS:,} ranks",
        )


def _tensor(spec: Spec, root: Section) -> None:
    sizes, tp = spec.model, spec.parallel.tp
    _divides(root, "tp", tp, sizes.heads, "heads")
    _divides(root, "tp", tp, sizes.kv_heads, "kv_heads")
    _divides(root, "tp", tp, sizes.feed_forward, "feed_forward")
    if sizes.heads % sizes.kv_heads:
        root.fail(("model", "kv_heads"), f"kv_heads does not divide heads ({sizes.heads})", found=sizes.kv_heads)
    if sizes.vocabulary % tp:
        padded = -(-sizes.vocabulary // (128 * tp)) * 128 * tp
        root.fail(
            ("model", "vocabulary"),
            f"the vocabulary is not divisible by tp ({tp})",
            found=sizes.vocabulary,
            remedy=f"pad it as training frameworks do, here to {padded}",
        )
    if spec.parallel.scatter_gather:
        _divides(root, "tp", tp, sizes.hidden, "hidden", "scatter_gather cuts each token's hidden state")
    if spec.parallel.sp and tp == 1:
        root.fail(
            ("parallel", "sp"),
            "sequence parallelism needs tensor parallelism, whose ranks it uses: tp is 1",
            found=True,
        )
    if tp > 1 and (spec.parallel.sp or sizes.moe is not None):
        _divides(root, "tp", tp, sizes.sequence // spec.parallel.cp, "a rank's part of the sequence")
    _divides(root, "cp", spec.parallel.cp, sizes.sequence, "sequence")
    if spec.parallel.cp > 1 and not spec.flash_attention:
        root.fail("flash_attention", "context parallelism needs attention that keeps no scores", found=False)


def _pipeline(spec: Spec, root: Section) -> None:
    layers, pp, virtual = spec.model.layers, spec.parallel.pp, spec.parallel.virtual_stages
    if spec.parallel.balance == "even":
        remedy = "write balance: layers, or ends, to share them otherwise"
        _divides(root, "pp", pp, layers, "layers", remedy)
        _divides(root, "virtual_stages", virtual, layers // pp, "the layers of a stage", remedy)
    elif any(not spec.layers_of(chunk) for chunk in range(1, spec.chunks - 1)):
        root.fail(("parallel", "pp"), "there are more pieces of the model than layers", found=spec.chunks,
                  expected=f"at most {layers}")  # fmt: skip
    if (spec.schedule == "interleaved") != (virtual > 1):
        root.fail(
            ("parallel", "virtual_stages"),
            "the interleaved schedule, and it alone, has virtual stages",
            found=virtual,
            remedy=f"the schedule is {spec.schedule}: write interleaved and 2 or more virtual stages, or neither",
        )
    if virtual > 1 and pp == 1:
        root.fail(("parallel", "virtual_stages"), "virtual stages need pipeline stages: pp is 1", found=virtual)
    if virtual > 1 and spec.batch.micro_batches % pp:
        root.fail(
            ("batch", "micro_batches"),
            f"the interleaved schedule needs micro-batches in multiples of pp ({pp})",
            found=spec.batch.micro_batches,
        )


def _experts(spec: Spec, root: Section) -> None:
    moe, ep, tp = spec.model.moe, spec.parallel.ep, spec.parallel.tp
    if moe is None:
        if spec.parallel.expert_tp != tp:
            root.fail(("parallel", "expert_tp"), "there are no experts to be whole", found=spec.parallel.expert_tp,
                      remedy="write model: moe, or leave it out")  # fmt: skip
        if ep > 1:
            root.fail(
                ("parallel", "ep"), "expert parallelism needs a model with experts", found=ep, remedy="write model: moe"
            )
        return
    if moe.top_k > moe.experts:
        root.fail(("model", "moe", "top_k"), f"top_k is more than there are experts ({moe.experts})", found=moe.top_k)
    if not any(spec.model.has_experts(layer) for layer in range(spec.model.layers)):
        key = "dense_layers" if moe.dense_layers >= spec.model.layers else "every"
        place, found = ("model", "moe", key), getattr(moe, key)
        if spec.model.hybrid is not None:
            place, found = ("model", "hybrid", "expert_layers"), spec.model.hybrid.expert_layers
        root.fail(place, f"no layer of {spec.model.layers} has experts", found=found)
    _divides(root, "ep", ep, moe.experts, "experts")
    _whole_experts(spec, root)
    _divides(root, "expert_tp", spec.parallel.expert_tp, moe.feed_forward, "the experts' feed_forward")
    if moe.shared_feed_forward:
        _divides(root, "tp", tp, moe.shared_feed_forward, "shared_feed_forward")


def _whole_experts(spec: Spec, root: Section) -> None:
    """Where the ranks are that share experts."""
    split = spec.parallel
    if split.expert_tp == split.tp:
        _divides(root, "ep", split.ep, split.copies, "dp x cp", "experts are spread over ranks of dp and cp")
        return
    if split.expert_tp != 1:
        root.fail(("parallel", "expert_tp"), "an expert is shared by all ranks of tp, or by none",
                  found=split.expert_tp, expected=f"{split.tp} or 1")  # fmt: skip
    if not split.sp:
        root.fail(("parallel", "expert_tp"), "whole experts under tensor parallelism need sequence parallelism: each "
                  "rank sends its own tokens", found=1, remedy="write sp: true")  # fmt: skip
    remedy = "whole experts are spread over the ranks of a stage"
    _divides(root, "ep", split.ep, split.stage_ranks, "dp x cp x tp", remedy)


def _attention(spec: Spec, root: Section) -> None:
    model, split = spec.model, spec.parallel
    if model.latents is not None and split.tp > 1 and not split.sp:
        root.fail(("model", "latents"), "latent attention under tensor parallelism needs sequence parallelism: each "
                  "rank makes latents of its own tokens", remedy="write parallel: sp: true")  # fmt: skip
    if model.latents is not None and model.kv_heads != model.heads:
        root.fail(("model", "kv_heads"), "latent attention has as many heads of keys and values as of queries",
                  found=model.kv_heads, expected=str(model.heads))  # fmt: skip
    if model.latents is not None and model.head_norms:
        root.fail(("model", "head_norms"), "latent attention normalises its latents, not heads", found=True,
                  remedy="leave out one of the two")  # fmt: skip
    if model.window and not spec.flash_attention:
        root.fail(("model", "window"), "attention that writes its scores to memory has no window", found=model.window,
                  remedy="leave out flash_attention: false")  # fmt: skip
    again = [name for name in ("attention", "half_of_matrices") if name in spec.operators]
    if again and not spec.flash_attention:
        root.fail("recompute", "scores that are written to memory are computed again as a whole", found=spec.recompute,
                  expected="without " + ", ".join(again), remedy="leave out flash_attention")  # fmt: skip
    if "half_of_matrices" in spec.operators and model.latents is not None:
        root.fail("recompute", "half of the matrices are those of grouped-query attention", found=spec.recompute,
                  expected="without half_of_matrices")  # fmt: skip
    if model.prediction_layers:
        _divides(root, "tp", split.tp, model.hidden, "hidden", "prediction layers' projections are split by columns")


_SHARED: Final = "tp x cp ranks have a part of them each"


def _hybrid(spec: Spec, root: Section) -> None:
    model, hybrid, tp = spec.model, spec.model.hybrid, spec.parallel.tp
    if hybrid is None:
        return
    if hybrid.expert_layers and model.moe is None:
        root.fail(("model", "hybrid", "expert_layers"), "there are no experts", found=hybrid.expert_layers,
                  remedy="write model: moe")  # fmt: skip
    _divides(root, "tp", tp * spec.parallel.cp, hybrid.heads, "the state space's heads", _SHARED)
    _divides(root, "tp", tp * spec.parallel.cp, hybrid.groups, "the state space's groups", _SHARED)
    if hybrid.heads % hybrid.groups:
        root.fail(("model", "hybrid", "groups"), f"groups does not divide heads ({hybrid.heads})", found=hybrid.groups)
    chunk = min(hybrid.chunk, model.sequence)
    if model.sequence % chunk:
        root.fail(("model", "hybrid", "chunk"), f"the chunk does not divide the sequence ({model.sequence})",
                  found=chunk)  # fmt: skip


def _adapters(spec: Spec, root: Section) -> None:
    if spec.lora is None:
        return
    tp, rank = spec.parallel.tp, spec.lora.rank
    if spec.model.latents is not None:
        root.fail(("lora",), "adapters are those of grouped-query attention", remedy="leave out latents, or lora")
    if not any("attention" in spec.model.kinds(layer) for layer in range(spec.model.layers)):
        root.fail(("lora",), "no layer has attention, which adapters are beside")
    _divides(root, "tp", tp, rank, "the adapters' rank")
    _divides(root, "tp", tp, spec.model.hidden, "hidden", "adapters are split by columns")


def _sharding(spec: Spec, root: Section) -> None:
    split = spec.parallel
    if split.zero > 3:
        root.fail(("parallel", "zero"), "no such stage", found=split.zero, expected="0, 1, 2 or 3")
    _divides(root, "fsdp", split.fsdp, split.copies, "dp x cp",
             "dp counts all replicas, those that share parameters too")  # fmt: skip
    if split.experts_apart and split.zero == 3 and split.fsdp != split.copies:
        root.fail(
            ("parallel", "fsdp"),
            f"with expert parallelism, FSDP shards over all of dp x cp ({split.copies})",
            found=split.fsdp,
            remedy="write fsdp: true",
        )


def _offload(spec: Spec, root: Section) -> None:
    share = spec.offload.optimizer
    if share and not spec.state_bytes:
        root.fail(("offload", "optimizer"), "the optimizer has no states", found=share, remedy="leave it out")
    if share and spec.keeps_parameters_as_states:
        root.fail(
            ("offload", "optimizer"),
            "PyTorch's FSDP gathers weights from the float32 copies that are among the optimizer's states",
            found=share,
            remedy="write kernels: fused, dtype: float32, or zero: 2 at most",
        )
