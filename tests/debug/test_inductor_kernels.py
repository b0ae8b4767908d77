"""Kernels are cut out of the code that Inductor writes, with the operations that were fused into each."""

from __future__ import annotations

import json

import pytest
import torch

from torchport.debug.constraints.base import CheckedGraph
from torchport.debug.kernels import calls_outside, kernels_in
from torchport.debug.nodes import GraphNode, TensorFacts
from torchport.debug.statistics import statistics

CPP = """
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()


cpp_fused__softmax_gelu_native_layer_norm_0 = async_compile.cpp_pybinding(['float*', 'const float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0) { auto text = "\\n"; }
''')

async_compile.wait(globals())

def call(args):
    # Topologically Sorted Source Nodes: [input_1], Original ATen: [aten.t, aten.addmm]
    extern_kernels.addmm(a, b, c, alpha=1, beta=1, out=buf0)
    extern_kernels.addmm(a, b, c, alpha=1, beta=1, out=buf1)
    buf2 = torch.ops.aten.convolution.default(buf0, buf1)
    buf3 = torch.ops.inductor._reinterpret_tensor(buf2)
"""
TRITON = """
# kernel path: /tmp/torchinductor/aa/caa.py
# Topologically Sorted Source Nodes: [h, out], Original ATen: [aten.gelu, aten._softmax]
# Source node to ATen node mapping:
#   h => erf
# Graph fragment:
#   %erf : [num_users=1] = call_function[target=torch.ops.aten.erf.default](args = (%x,), kwargs = {})
triton_per_fused__softmax_gelu_0 = async_compile.triton('triton_per_fused__softmax_gelu_0', '''
import triton
import triton.language as tl

@triton.jit
def triton_per_fused__softmax_gelu_0(in_ptr0, out_ptr0, xnumel, rnumel):
    pass
''', device_str='cuda')
"""


def test_a_cpp_kernel_is_cut_out_as_it_is_written() -> None:
    known = {"_softmax", "gelu", "native_layer_norm", "layer", "norm", "mul"}
    (kernel,) = kernels_in(CPP, known)
    assert (kernel.name, kernel.language) == ("cpp_fused__softmax_gelu_native_layer_norm_0", "C++")
    assert kernel.source.startswith("#include") and r'"\n"' in kernel.source and kernel.source.endswith("}\n")
    assert kernel.operations == ("_softmax", "gelu", "native_layer_norm")
    assert kernel.file.endswith(".cpp")


def test_a_triton_kernel_says_itself_what_was_fused() -> None:
    (kernel,) = kernels_in(TRITON)
    assert kernel.language == "Triton" and kernel.operations == ("gelu", "_softmax")
    assert kernel.file == "triton_per_fused__softmax_gelu_0.py" and "@triton.jit" in kernel.source


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("cpp_fused_add_0", ("add",)),
        ("cpp_fused_gelu_gelu_backward_12", ("gelu", "gelu_backward")),
        ("cpp_fused_mystery_gelu_0", ("mystery_gelu",)),
        ("cpp_copy_0", ()),
    ],
)
def test_operations_by_name(name: str, operations: tuple[str, ...]) -> None:
    code = f"{name} = async_compile.cpp_pybinding([], '''\nx\n''')"
    assert kernels_in(code, {"add", "gelu", "gelu_backward", "backward"})[0].operations == operations


def test_calls_of_libraries_are_counted() -> None:
    assert calls_outside(CPP) == {"extern_kernels.addmm": 2, "torch.ops.aten.convolution.default": 1}


def node(name: str, op: str, kind: str, tensors: tuple[TensorFacts, ...] = ()) -> GraphNode:
    module = "torch.nn.modules.linear.Linear" if kind == "call_function" else ""
    return GraphNode(name, op, kind, (), tensors, "fc", module, None)


def facts(dtype: torch.dtype, *shape: int) -> TensorFacts:
    size = torch.Size(shape).numel() * torch.empty(0, dtype=dtype).element_size()
    return TensorFacts(shape, dtype, (), "cpu", size)


def test_statistics_add_up() -> None:
    graph = CheckedGraph(
        "graph_0",
        "forward",
        (
            node("x", "placeholder", "placeholder", (facts(torch.float32, 4, 8),)),
            node("mm", "aten.mm.default", "call_function", (facts(torch.float32, 4, 4),)),
            node("mm_1", "aten.mm.default", "call_function", (facts(torch.float32, 4, 4),)),
            node("le", "aten.le.Scalar", "call_function", (facts(torch.bool, 4, 4),)),
            node("output", "output", "output"),
        ),
    )
    numbers = statistics(graph, kernels_in(CPP, {"_softmax"}), calls_outside(CPP))
    assert (numbers["nodes"], numbers["inputs"], numbers["operations"]) == (5, 1, 3)
    assert list(numbers["operation_counts"].items()) == [("aten.mm.default", 2), ("aten.le.Scalar", 1)]
    assert numbers["dtypes"] == {"float32": {"tensors": 3, "bytes": 256}, "bool": {"tensors": 1, "bytes": 16}}
    assert numbers["bytes"] == {"inputs": 128, "computed": 144, "largest": {"node": "x", "bytes": 128}}
    assert numbers["kernels"]["generated"] == 1 and numbers["kernels"]["languages"] == {"C++": 1}
    assert json.loads(json.dumps(numbers)) == numbers
    assert statistics(graph)["kernels"] is None, "nothing is known of kernels that were not made"


def test_a_graph_without_tensors_has_statistics() -> None:
    numbers = statistics(CheckedGraph("graph_0", "dynamo", ()))
    assert numbers["bytes"] == {"inputs": 0, "computed": 0, "largest": None} and numbers["dtypes"] == {}
