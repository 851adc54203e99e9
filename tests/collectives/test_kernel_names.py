"""What a kernel's name says: communication, compute, or both in one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chakrasim.analysis.table.kernel_classes import CLASS_NAMES, class_of_name
from chakrasim.collectives.kernel_names import (
    is_communication_kernel,
    is_fused_kernel,
    operation_of_kernel,
    qualified_name,
)
from chakrasim.trace.kinds import CollectiveType as C

COMMUNICATION = (
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 4>(c10::BFloat16*, unsigned long)",
    "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16>",
    "void <unnamed>::multimem_one_shot_reduce_kernel<float, 16>(float*)",
    "void c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**, int)",
    "multimem_all_gather_kernel",
    "_multimem_all_gather_kernel",
    "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16>",
    "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*)",
    "void ep::intranode::notify_dispatch<8>(int const*)",
    "void deep_ep::internode_ll::combine<true, 3, 7168, 9>(void*)",
    "void uccl_ep::internode_ll::dispatch<true, 7168>(void*)",
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(x)",
    "EpCombineIntraNodeKernel_bf16",
    "void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*, vllm::RankSignals)",
    "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(x)",
    "_ZN5aiter26cross_device_reduce_1stageI12hip_bfloat16Li8EEEvPNS_8RankDataE.kd",
    "_ZN12_GLOBAL__N_126two_shot_all_reduce_kernelIfEEvPPT_",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true>(x)",
    "void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel<true>(x)",
    "void tensorrt_llm::kernels::moe_a2a::moeA2ADispatchKernel<x>(y)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::Op)1, half>(x)",
    "void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<__nv_bfloat16>(x)",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<half>, half>(x)",
    "mscclKernel_Sum_half_Simple_false",
    "void mscclpp::allreduce7<half>(x)",
    "ncclSymkDevKernel_AllGather_ST(ncclSymkDevWorkArgs4K)",
    "void ncclKernel_AllReduce_RING_LL_Sum_float(ncclWork)",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
    "void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)",
    "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)",
    "hcom_allReduce__123_0_1",
    "ringallreduce",
)
COMPUTE = (
    "void (anonymous namespace)::groupnorm_kernel_dispatch_up<__half>",
    "void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8>",
    "void cutlass::device_kernel<deep_ep::all_reduce>",
    "void at::native::reduce_kernel<512, 1, at::native::all_reduce_functor>(x)",
    "_ZN7cutlass13device_kernelIN4dpsk2ep9internodeEEEvT_",
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_multiple_abd_xdlI10all_reduceEEvT_",
    "triton_red_fused_all_reduce_nccl_add_3",
    "triton_poi_fused_all_gather_into_tensor_wait_tensor_3",
    "small_reduce_kernel",
    "void warpAllReduceSum<float>(float*)",
    "void softmax_block_all_reduce<float>(float*)",
    "void foo::step::update<float>(x)",
    "deepep_permute_triton_kernel",
    "symmetric_pad_kernel",
    "void deep_gemm::sm90_fp8_gemm_1d2d_impl<7168>(x)",
    "flash_fwd_combine_kernel",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(x)",
    "",
)
FUSED = (
    "device_gemm_xdl_all_gather_dispatch",
    "_all_gather_gemm_kernel",
    "void foo::GemmAllReduceKernel<half>(x)",
    "nvshmem_matmul_reduce_scatter",
)


@pytest.mark.parametrize("name", COMMUNICATION)
def test_communication(name: str) -> None:
    assert is_communication_kernel(name) and not is_fused_kernel(name)
    assert CLASS_NAMES[class_of_name(name)] == "communication"


@pytest.mark.parametrize("name", COMPUTE)
def test_compute(name: str) -> None:
    assert not is_communication_kernel(name) and not is_fused_kernel(name)
    assert CLASS_NAMES[class_of_name(name)] == "compute"


@pytest.mark.parametrize("name", FUSED)
def test_a_kernel_that_does_both_counts_as_compute_and_is_known(name: str) -> None:
    assert is_fused_kernel(name) and not is_communication_kernel(name)
    assert CLASS_NAMES[class_of_name(name)] == "compute"


def test_the_names_that_others_found_hard(shared_dir: Path) -> None:
    for name, kind in json.loads((shared_dir / "traces/wild/reduced/kernel_class_names.json").read_bytes()):
        found = "ask the owner: a fused kernel" if is_fused_kernel(name) else CLASS_NAMES[class_of_name(name)]
        assert found == kind, name


def test_the_operation_of_a_kernel_in_an_anonymous_namespace() -> None:
    names = {
        "void (anonymous namespace)::two_shot_all_reduce_kernel<float>(x)": C.ALL_REDUCE,
        "_ZN12_GLOBAL__N_125multimem_all_gather_kernelIfEEvPT_": C.ALL_GATHER,
        "void aiter::reduce_scatter_cross_device_store<half>(all_reduce)": C.REDUCE_SCATTER,
    }
    assert {name: operation_of_kernel(name) for name in names} == names


def test_a_name_without_its_arguments() -> None:
    assert qualified_name("void a::(anonymous namespace)::b<c<d>, (e)1>(f<g>)") == "void a::::b"
    assert qualified_name("_ZN12_GLOBAL__N_11fIiEEvT_") == "f"
    assert qualified_name("_Z9999f") == "f"
