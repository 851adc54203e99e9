"""Whatever a transformer is split into, the ranks together do what the undivided model does."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from step_machines import communication, kinds_of, matrix_operations, simulate

from chakrasim import InputError, Protocol
from chakrasim.generator import formulas, transformer
from chakrasim.generator.transformer import Generated, generate_transformer
from chakrasim.trace import NodeType


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Small models, split in every way that goes together."""
    tp, pp, ep = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2]))
    virtual = draw(st.sampled_from([1, 2])) if pp > 1 else 1
    balance = draw(st.sampled_from(["even", "layers", "ends"]))
    dp = ep * draw(st.sampled_from([1, 2, 3]))
    flash = draw(st.booleans())
    cp = draw(st.sampled_from([1, 2])) if flash else 1
    moe = ep > 1 or draw(st.booleans())
    model: dict[str, Any] = {
        "layers": pp * virtual * draw(st.integers(1, 2))
        if balance == "even"
        else pp * virtual + draw(st.integers(0, 5)),
        "hidden": 16,
        "heads": 8,
        "kv_heads": draw(st.sampled_from([4, 8])),
        "feed_forward": 24,
        "vocabulary": 40,
        "sequence": 8,
        **{key: draw(st.booleans()) for key in ("gated", "tied_embeddings", "bias", "dropout", "causal")},
        "norm": draw(st.sampled_from(["rms", "layer"])),
        "position": draw(st.sampled_from(["rotary", "learned", "none"])),
    }
    if moe:
        model["moe"] = {
            "experts": draw(st.sampled_from([2, 6])),
            "top_k": draw(st.integers(1, 2)),
            "every": draw(st.integers(1, model["layers"])),
            "feed_forward": 8,
            "shared_feed_forward": draw(st.sampled_from([0, 4])),
        }
    parallel: dict[str, Any] = {"dp": dp, "cp": cp, "tp": tp, "pp": pp, "ep": ep, "zero": draw(st.integers(0, 3))}
    parallel["balance"] = balance
    parallel["sp"] = tp > 1 and draw(st.booleans())
    if virtual > 1:
        parallel["virtual_stages"] = virtual
    return {
        "model": model,
        "parallel": parallel,
        "batch": {"micro_batch": draw(st.integers(1, 2)), "micro_batches": pp * draw(st.integers(1, 2))},
        "schedule": "interleaved" if virtual > 1 else draw(st.sampled_from(["1f1b", "gpipe"])),
        "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "flash_attention": flash,
        "overlap": {key: draw(st.booleans()) for key in ("tp", "dp", "pp", "fsdp")} | {"bucket": "1 kB"},
    }


def undivided(spec: dict[str, Any], dp: int) -> Generated:
    """The same step on one rank."""
    batch = spec["batch"]
    whole = {"micro_batch": batch["micro_batch"], "micro_batches": batch["micro_batches"] * dp}
    rest = {key: spec[key] for key in ("model", "recompute", "flash_attention")}
    return generate_transformer({**rest, "batch": whole})


@settings(max_examples=60)
@given(specs())
def test_totals_do_not_depend_on_the_split(spec: dict[str, Any]) -> None:
    split = generate_transformer(spec)
    whole = undivided(spec, spec["parallel"]["dp"])
    assert split.totals.model_flops == whole.totals.model_flops
    assert split.totals.flops == whole.totals.flops
    assert split.totals.executed_flops == whole.totals.executed_flops == matrix_operations(split.job)
    assert split.totals.parameters == whole.totals.parameters
    assert split.totals.tokens == whole.totals.tokens


@settings(max_examples=40)
@given(specs(), st.sampled_from(["Ring", "Switch"]), st.integers(1, 50), st.booleans(), st.booleans())
def test_every_split_runs_to_its_end(
    spec: dict[str, Any], topology: str, gb_per_s: int, congested: bool, rendezvous: bool
) -> None:
    """On a ring, ranks of one group are at different distances: their times differ, and none waits for ever."""
    job = generate_transformer(spec).job
    assume(job.ranks > 1)
    mode: Literal["aware", "unaware"] = "aware" if congested else "unaware"
    result = simulate(
        job,
        topology=topology,
        gb_per_s=gb_per_s,
        latency_ns=500,
        congestion=mode,
        protocol=Protocol(rendezvous=rendezvous),
    )
    assert (result.finish_ns > 0).all()


@settings(max_examples=40)
@given(specs())
def test_nodes_are_in_program_order(spec: dict[str, Any]) -> None:
    for trace in generate_transformer(spec).job.traces:
        ids = trace.ids.astype(np.int64)
        assert (np.diff(ids) == 1).all() and ids[0] == 0
        for deps in (trace.data_deps, trace.ctrl_deps):
            node = np.repeat(np.arange(len(trace)), np.diff(deps.offsets))
            assert (deps.targets.astype(np.int64) < ids[node]).all()
        compute = np.flatnonzero(trace.types == int(NodeType.COMP_NODE))
        for before, after in zip(compute[:-1].tolist(), compute[1:].tolist(), strict=True):
            assert before in trace.ctrl_deps[after].tolist()
        assert (trace.attr("tensor_size").integers()[compute] >= 1).all()
        assert (trace.attr("num_ops").integers()[compute] >= 1).all()


@settings(max_examples=30)
@given(specs())
def test_messages_between_stages_have_one_sender_and_one_receiver(spec: dict[str, Any]) -> None:
    job = generate_transformer(spec).job
    ends: dict[NodeType, list[tuple[int, int, int, int]]] = {NodeType.COMM_SEND_NODE: [], NodeType.COMM_RECV_NODE: []}
    for stage, trace in enumerate(job.traces):
        tag, peer, size = (trace.attr(name).integers() for name in ("comm_tag", "comm_peer", "comm_size"))
        for kind, found in ends.items():
            for node in np.flatnonzero(trace.types == int(kind)).tolist():
                other = int(peer[node])
                pair = (stage, other) if kind == NodeType.COMM_SEND_NODE else (other, stage)
                found.append((*pair, int(tag[node]), int(size[node])))
    sent, received = (sorted(found) for found in ends.values())
    assert sent == received
    assert len({message[:3] for message in sent}) == len(sent)


def test_expert_ranks_share_attention_and_do_not_repeat_it() -> None:
    """STAGE multiplies attention by ``ep`` (its issue 30): here experts live on ranks of dp."""

    def attention_and_experts(ep: int) -> tuple[int, int, int]:
        spec = {"model": "mixtral-8x7b", "parallel": {"dp": 8, "ep": ep}, "batch": {"global_batch": 8}}
        job = generate_transformer(spec).job
        trace = job.traces[0]
        operations = trace.attr("num_ops").integers()
        experts = np.array(["experts" in trace.name(node) for node in range(len(trace))])
        attention = kinds_of(trace) == "attention"
        return job.ranks, int(operations[attention].sum()), int(operations[experts & (kinds_of(trace) == "gemm")].sum())

    assert attention_and_experts(1) == attention_and_experts(8) == attention_and_experts(2)


def test_expert_gradients_are_reduced_among_the_ranks_that_hold_the_experts() -> None:
    spec = {"model": "mixtral-8x7b", "parallel": {"dp": 8, "ep": 4}, "batch": {"global_batch": 8}}
    generated = generate_transformer(spec)
    groups = generated.job.process_groups
    assert groups["ep"] == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert groups["expert_dp"] == ((0, 4), (1, 5), (2, 6), (3, 7))
    bytes_of = communication(generated.job.traces[0])
    experts = 32 * 8 * 3 * 4096 * 14_336
    assert bytes_of["all_reduce", "expert_dp"] == experts // 4 * 4
    assert bytes_of["all_reduce", "dp"] == (generated.totals.parameters - experts) * 4


def test_tokens_that_do_not_come_out_even_are_not_lost() -> None:
    model = {"layers": 1, "hidden": 8, "heads": 2, "vocabulary": 10, "sequence": 5, "moe": {"experts": 3, "top_k": 2}}
    trace = generate_transformer({"model": model}).job.traces[0]
    shapes = [
        tuple(int(trace.attr(name).integers()[node]) for name in ("batch", "m"))
        for node in range(len(trace))
        if trace.name(node) == "layer 0 forward: experts up"
    ]
    assert shapes == [(1, 4), (2, 3)]


def test_a_program_that_loses_work_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formulas, "model_operations", lambda spec: 1)
    with pytest.raises(InputError, match="the parts do not add up to the model: operations; found"):
        transformer.generate_transformer({"model": "llama-7b"})


def test_operations_beyond_64_bits() -> None:
    spec = {"model": "llama3-405b", "parallel": {"dp": 1024, "tp": 8}, "batch": {"global_batch": 4096}}
    generated = generate_transformer(spec)
    assert generated.totals.model_flops > 2**63
    (trace,) = generated.job.traces
    assert trace.metadata["model_flops"] == float(generated.totals.model_flops)
    with pytest.raises(InputError, match="operations, bytes or the time of one node are beyond what a trace can hold"):
        generate_transformer({"model": {"preset": "llama-7b", "hidden": 2**30, "sequence": 2**20}})


def test_the_same_spec_gives_the_same_bytes() -> None:
    from chakrasim.trace.chakra.encode import encode_trace

    spec = {"model": "llama-7b", "parallel": {"tp": 2, "pp": 4}, "batch": {"micro_batches": 4}}
    first, second = (generate_transformer(spec).job.traces for _ in range(2))
    assert [encode_trace(trace) for trace in first] == [encode_trace(trace) for trace in second]
