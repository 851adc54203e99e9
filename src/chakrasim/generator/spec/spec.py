"""What is to be generated: a transformer, how it is split over ranks, and one training step of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

BYTES_OF: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
SCHEDULES: Final = ("1f1b", "interleaved", "gpipe")
BALANCES: Final = ("even", "layers", "ends", "products")
RECOMPUTES: Final = ("none", "selective", "full")
OPERATORS: Final = ("norm", "activation", "feed_forward", "attention", "half_of_matrices", "latents", "experts")
"""What can be computed again alone."""
KERNELS: Final = ("fused", "compiled", "eager")
CUDA_GRAPHS: Final = ("none", "partial", "full")
MATRIX_DTYPES: Final = ("none", "float8", "mxfp8", "nvfp4")
POSITIONS: Final = ("rotary", "learned", "alibi", "none")
NORMS: Final = ("rms", "layer")
OPTIMIZERS: Final = ("adamw", "sgd")


@dataclass(frozen=True)
class Experts:
    """Mixture of experts in the feed-forward part of some layers.

    Attributes
    ----------
    experts: how many there are.
    top_k: to how many of them each token goes; tokens are spread evenly.
    every: layers ``every - 1``, ``2 * every - 1``, ... have experts, the others a dense feed-forward part.
    feed_forward: inner size of an expert.
    shared_feed_forward: inner size of a dense part beside the experts that takes all tokens; 0: none.
    dense_layers: leading layers without experts, from behind which ``every`` counts.
    latent: elements of a token as the experts see it, between a matrix down and one up; 0: the hidden state itself.
    router_dtype: what the router computes in; empty: what all else does.
    """

    experts: int
    top_k: int
    every: int = 1
    feed_forward: int = 0
    shared_feed_forward: int = 0
    dense_layers: int = 0
    latent: int = 0
    router_dtype: str = ""


@dataclass(frozen=True)
class Latents:
    """Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1).

    Attributes
    ----------
    query_rank, key_value_rank: elements of a token's latents, from which its queries, and its keys and values, come.
    rotary_size: elements of a head's queries and keys that have positions, beside ``head_size`` without; keys share
        them.
    """

    query_rank: int
    key_value_rank: int
    rotary_size: int


@dataclass(frozen=True)
class Hybrid:
    """Layers that are one thing each: a state space (Dao and Gu 2024, arXiv:2405.21060), attention, experts, or, what
    is left, a dense feed-forward part.

    Attributes
    ----------
    mamba_layers, attention_layers, expert_layers: how many there are, each kind spread evenly.
    heads, head_size, state, groups: sizes of the state space; heads of a group share its inputs and outputs.
    convolution: tokens that the convolution in front sees.
    chunk: tokens that are computed as matrix products.
    """

    mamba_layers: int
    attention_layers: int
    expert_layers: int
    heads: int
    head_size: int
    state: int
    groups: int
    convolution: int = 4
    chunk: int = 256

    @property
    def inner(self) -> int:
        """Elements of a token in all heads."""
        return self.heads * self.head_size

    @property
    def convolved(self) -> int:
        """Elements of a token that the convolution takes: those of the heads, and inputs and outputs of states."""
        return self.inner + 2 * self.groups * self.state

    def kinds(self, layers: int) -> tuple[str, ...]:
        """What each of so many layers is."""
        counts = {"mamba": self.mamba_layers, "attention": self.attention_layers, "experts": self.expert_layers}
        counts["feed_forward"] = layers - sum(counts.values())
        places = [((2 * i + 1) / (2 * count), kind) for kind, count in counts.items() for i in range(count)]
        return tuple(kind for _, kind in sorted(places))


@dataclass(frozen=True)
class Model:
    """A decoder (or, not causal, an encoder) of equal layers.

    Attributes
    ----------
    layers, hidden, feed_forward, heads, vocabulary, sequence: sizes; ``sequence`` in tokens.
    kv_heads: heads of keys and values (grouped-query attention).
    head_size: elements of a head.
    gated: the feed-forward part has a gate (three matrices, as in Llama) instead of two matrices.
    tied_embeddings: the head uses the embedding's matrix.
    causal: tokens attend to earlier ones only.
    bias: matrices have biases.
    position: "rotary", "learned" (an embedding), "alibi" (a bias of the scores, inside attention) or "none".
    norm: "rms" (a weight) or "layer" (a weight and a bias).
    dropout: there is dropout behind embedding, attention and feed-forward part, and on attention probabilities.
    moe: experts, if there are any.
    latents: of attention, if queries, keys and values are made of them.
    window: how many tokens those of every other layer, from the first, attend to; 0: all.
    hybrid: layers of one kind each; None: each is attention and a feed-forward part.
    head_norms: queries and keys are normalised, each head by itself.
    prediction_layers: layers behind the others that predict one more token each (DeepSeek-AI 2024, arXiv:2412.19437,
        section 2.2).
    """

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    vocabulary: int
    sequence: int
    kv_heads: int
    head_size: int
    gated: bool = False
    tied_embeddings: bool = False
    causal: bool = True
    bias: bool = False
    position: str = "rotary"
    norm: str = "rms"
    dropout: bool = False
    moe: Experts | None = None
    name: str = "transformer"
    latents: Latents | None = None
    window: int = 0
    hybrid: Hybrid | None = None
    prediction_layers: int = 0
    head_norms: bool = False

    @property
    def predictions(self) -> range:
        """The numbers of the prediction layers, which follow those of the others."""
        return range(self.layers, self.layers + self.prediction_layers)

    def has_experts(self, layer: int) -> bool:
        """Whether a layer has experts: as its feed-forward part, or, of a hybrid, alone."""
        return "experts" in self.kinds(layer)

    def kinds(self, layer: int) -> tuple[str, ...]:
        """What a layer is made of, in order."""
        if self.hybrid is not None and layer < self.layers:
            return (self.hybrid.kinds(self.layers)[layer],)
        moe = self.moe
        behind = moe is not None and layer >= moe.dense_layers and (layer + 1 - moe.dense_layers) % moe.every == 0
        experts = behind or (moe is not None and layer >= self.layers)
        return ("attention", "experts" if experts else "feed_forward")

    def keys(self, layer: int) -> int:
        """How many tokens a token of a layer attends to; to how many it may, causal or not."""
        near = self.window and layer < self.layers and layer % 2 == 0
        return min(self.window, self.sequence) if near else self.sequence


@dataclass(frozen=True)
class Parallel:
    """How ``dp * cp * tp * pp`` ranks share the work; rank = tp position + tp * (cp position + cp * (dp position + dp *
    stage)).

    Attributes
    ----------
    dp: replicas, each with its own part of the batch.
    tp: ranks that share every matrix (Megatron-LM).
    pp: pipeline stages.
    cp: ranks that share a sequence, each with its part of the tokens; keys and values go round for attention.
    sp: sequence parallelism: what tensor parallelism does not split is split along the sequence, over the same ranks.
    ep: ranks that share a layer's experts. They are ranks of ``dp``, and with ``expert_tp`` 1 of ``tp`` too: the number
        of ranks does not grow.
    expert_tp: ranks that share an expert's matrices: ``tp``, or 1.
    zero: what data parallelism shards: 0 nothing, 1 optimizer states, 2 gradients too, 3 parameters too (FSDP).
    fsdp: over how many ranks of ``dp`` ZeRO 3 shards; the rest are replicas of these.
    virtual_stages: pieces of the model on each pipeline rank (interleaved schedule).
    balance: how layers are shared among pieces: "even"; "layers", as evenly as it goes; "ends", the same with the
        embedding counted as a layer and the head as ``end_layers``; "products", each takes layers until it has more
        than its share of the products with weights, the head's among them (nanotron).
    end_layers: how many layers what is behind the last one counts as.
    scatter_gather: without ``sp``, each rank of ``tp`` sends its part of what goes to another stage, where ranks
        gather it (Narayanan et al. 2021, arXiv:2104.04473, section 4.1); else each sends all of it.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    sp: bool = False
    ep: int = 1
    zero: int = 0
    fsdp: int = 1
    virtual_stages: int = 1
    balance: str = "even"
    end_layers: int = 1
    scatter_gather: bool = False
    expert_tp: int = 0

    def __post_init__(self) -> None:
        if not self.expert_tp:
            object.__setattr__(self, "expert_tp", self.tp)

    @property
    def stage_ranks(self) -> int:
        """How many ranks a pipeline stage has."""
        return self.copies * self.tp

    @property
    def expert_replicas(self) -> int:
        """How many ranks of a stage hold the same part of the same experts."""
        return self.stage_ranks // (self.expert_tp * self.ep)

    @property
    def experts_apart(self) -> bool:
        """Whether other ranks hold the same experts than hold the same of all else."""
        return self.ep > 1 or self.expert_tp != self.tp

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.copies * self.tp * self.pp

    @property
    def copies(self) -> int:
        """Ranks that hold the same parameters, unless these are sharded."""
        return self.dp * self.cp


@dataclass(frozen=True)
class Batch:
    """Sequences of one step: ``global_batch = micro_batch * micro_batches * dp``."""

    global_batch: int
    micro_batch: int
    micro_batches: int


@dataclass(frozen=True)
class Overlap:
    """What communication compute does not wait for.

    Attributes
    ----------
    tp: sums and scatters of input gradients run during the computation of weight gradients, gathers of the backward
        pass during that of input gradients.
    dp: gradients are reduced as soon as those of ``bucket_bytes`` are there; else behind the last backward pass.
    pp: a stage computes on while it sends.
    fsdp: the weights of the next layer are gathered while this one computes.
    """

    tp: bool = True
    dp: bool = True
    pp: bool = True
    fsdp: bool = True
    bucket_bytes: int = 25 * 2**20


@dataclass(frozen=True)
class Adapters:
    """Low-rank adapters (Hu et al. 2021, arXiv:2106.09685) beside the matrices of attention; all else is frozen.

    Attributes
    ----------
    rank: elements between the two matrices of an adapter.
    """

    rank: int


@dataclass(frozen=True)
class Offload:
    """What is kept in the host's memory.

    Attributes
    ----------
    optimizer: the share of the optimizer's states, 0 to 1, which come for the update and go back.
    activations: the share of what a layer keeps for its backward pass, 0 to 1, which goes when the layer is over and
        comes back before its backward pass.
    """

    optimizer: float = 0.0
    activations: float = 0.0


@dataclass(frozen=True)
class Spec:
    """One training step of a transformer on many ranks; `chakrasim.generator.spec.file` reads it from YAML.

    Attributes
    ----------
    schedule: "1f1b", "interleaved" or "gpipe".
    recompute: "none"; "selective": scores, softmax and their product with the values, in the backward pass; "full": all
        of each layer but its input; or names of `OPERATORS`, comma-separated: these alone.
    recompute_layers: with "full", of so many layers of each piece of the model; 0: of all.
    dtype: what is computed in and sent; ``gradient_dtype``: what gradients are kept and reduced in.
    matrix_dtype: what the layers' products with weights are computed in, where it is not ``dtype``.
    kernels: "fused": element-wise work as Megatron-LM and Transformer Engine fuse it; "compiled": as torch.compile
        does; "eager": a kernel for each of PyTorch's operators.
    fused_loss: the cross entropy is one kernel each way that writes no copy of the logits in float32.
    copied_heads: attention takes queries out of what their product with keys and values gave, and copies of the
        others, so that memory has both; what it gives is copied into another order (nanotron).
    launch_ns: the host's time for each kernel; 0: it is never behind.
    cuda_graphs: how much of the step is launched at once: "none", "partial" (layers, or parts of them), "full".
    optimizer: "adamw" or "sgd"; ``state_bytes``: of each parameter, master copy included.
    clip_gradients: the norm of all gradients is taken, and they are scaled by it.
    flash_attention: scores stay inside one kernel; else they are written to memory.
    lora: adapters, which alone are trained; None: all parameters are.
    offload: what is kept in the host's memory.
    """

    model: Model
    parallel: Parallel
    batch: Batch
    schedule: str = "1f1b"
    recompute: str = "none"
    recompute_layers: int = 0
    dtype: str = "bfloat16"
    matrix_dtype: str = "none"
    gradient_dtype: str = "float32"
    optimizer: str = "adamw"
    state_bytes: int = 12
    clip_gradients: bool = False
    flash_attention: bool = True
    kernels: str = "fused"
    fused_loss: bool = False
    copied_heads: bool = False
    launch_ns: int = 0
    cuda_graphs: str = "none"
    overlap: Overlap = Overlap()
    lora: Adapters | None = None
    offload: Offload = Offload()

    @property
    def copies_embedding(self) -> bool:
        """Whether the last stage has a copy of the embedding of the first."""
        return self.parallel.pp > 1 and (self.model.tied_embeddings or self.model.prediction_layers > 0)

    @property
    def keeps_parameters_as_states(self) -> bool:
        """Whether a rank has its parameters in float32 alone, among the optimizer's states, as PyTorch's FSDP does."""
        sharded = self.parallel.zero == 3 and self.kernels != "fused"
        return sharded and self.lora is None and self.value_bytes < 4

    @property
    def value_bytes(self) -> int:
        """Bytes of one value of ``dtype``."""
        return BYTES_OF[self.dtype]

    @property
    def gradient_bytes(self) -> int:
        """Bytes of one value of ``gradient_dtype``."""
        return BYTES_OF[self.gradient_dtype]

    @property
    def operators(self) -> tuple[str, ...]:
        """What is computed again alone."""
        return () if self.recompute in RECOMPUTES else tuple(self.recompute.split(","))

    def recomputes(self, layer: int) -> bool:
        """Whether all of a layer is computed again."""
        if self.recompute != "full" or not self.recompute_layers:
            return self.recompute == "full"
        first = next((piece.start for piece in map(self.layers_of, range(self.chunks)) if layer in piece), None)
        return first is not None and layer - first < self.recompute_layers

    def recomputes_alone(self, operator: str) -> bool:
        """Whether an operator is computed again alone, and not half of all matrix products."""
        return operator in self.operators and "half_of_matrices" not in self.operators

    @property
    def chunks(self) -> int:
        """Pieces that the layers are cut into: stages, times virtual stages."""
        return self.parallel.pp * self.parallel.virtual_stages

    def layers_of(self, chunk: int) -> range:
        """The layers of a piece."""
        if self.parallel.balance == "products":
            return range(*(self._layers_before(number) for number in (chunk, chunk + 1)))
        front, behind = (1, self.parallel.end_layers) if self.parallel.balance == "ends" else (0, 0)
        whole = front + self.model.layers + behind
        first, last = (number * whole // self.chunks - front for number in (chunk, chunk + 1))
        return range(max(first, 0), min(last, self.model.layers))

    def sort(self, layer: int) -> tuple[tuple[str, ...], int, bool]:
        """What layers have in common that do the same."""
        return self.model.kinds(layer), self.model.keys(layer), self.recomputes(layer)

    def alike(self, chunk: int) -> list[tuple[int, int]]:
        """Of layers of a piece that are the same, one and how many there are, of each sort."""
        found: dict[object, tuple[int, int]] = {}
        for layer in self.layers_of(chunk):
            key = self.sort(layer)
            found[key] = layer, found.get(key, (layer, 0))[1] + 1
        return list(found.values())

    @cached_property
    def first_alike(self) -> tuple[int, ...]:
        """Of each piece, the first one whose passes do the same: with as many layers of each sort, in that order, and
        the ends that it has."""
        found: dict[object, int] = {}
        last = self.chunks - 1
        pieces = ((chunk == 0, chunk == last, *map(self.sort, self.layers_of(chunk))) for chunk in range(self.chunks))
        return tuple(found.setdefault(piece, chunk) for chunk, piece in enumerate(pieces))

    @cached_property
    def first_stage_alike(self) -> tuple[int, ...]:
        """Of each stage, the first one with the same pieces; it has the most passes under way."""
        found: dict[object, int] = {}
        stages = (self.first_alike[stage :: self.parallel.pp] for stage in range(self.parallel.pp))
        return tuple(found.setdefault(pieces, stage) for stage, pieces in enumerate(stages))

    def _layers_before(self, chunk: int) -> int:
        """How many layers pieces before this one have, each more than its share of products."""
        model = self.model
        layer = model.hidden * (2 * (model.heads + model.kv_heads) * model.head_size
                                + (3 if model.gated else 2) * model.feed_forward)  # fmt: skip
        whole = model.layers * layer + model.hidden * model.vocabulary
        return min(chunk * whole // (self.chunks * layer) + 1, model.layers) if chunk else 0

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on one rank."""
        return self.batch.micro_batch * self.model.sequence // self.parallel.cp


def default_state_bytes(optimizer: str, dtype: str) -> int:
    """Bytes per parameter that an optimizer keeps: a float32 copy of low-precision weights, and two moments (AdamW)."""
    return (0 if dtype == "float32" else 4) + (8 if optimizer == "adamw" else 0)
