"""A graph of make_fx, AOTAutograd or Dynamo, once read, computes what torch computes there and then."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_function, aot_module, aot_module_simplified
from torch.fx.experimental.proxy_tensor import make_fx

from torchport.capture import graph as g
from torchport.capture.exported import Exported
from torchport.capture.fx import graph_of
from torchport.capture.interpret import Interpreter
from torchport.capture.manifest import read_manifest, write_manifest
from torchport.capture.plan import make_plan
from torchport.errors import CaptureError

X = torch.linspace(-1, 1, 12).reshape(3, 4)
W = torch.linspace(-2, 1, 16).reshape(4, 4)


def tensors(values: Any) -> list[torch.Tensor]:
    leaves = values if isinstance(values, tuple | list) else [values]
    return [leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def run(exported: Exported, inputs: Sequence[Any]) -> list[torch.Tensor]:
    plan = make_plan(exported.graph)
    return Interpreter(exported.graph, exported.weights, plan, lambda _, value: value).run(tensors(inputs))


def must_equal(exported: Exported, inputs: Sequence[Any], expected: Any) -> None:
    before = [tensor.clone() for tensor in tensors(inputs)]
    torch.testing.assert_close(run(exported, inputs), tensors(expected), rtol=0, atol=0)
    torch.testing.assert_close(tensors(inputs), before, rtol=0, atol=0, msg="the inputs were written to")


def ops(exported: Exported) -> list[str]:
    return [node.op for node in exported.graph.root.nodes]


# make_fx


def layers(x: torch.Tensor, w: torch.Tensor) -> tuple[Any, ...]:
    hidden = torch.nn.functional.linear(x, w).relu()
    best, places = hidden.topk(2)
    return hidden.reshape(x.shape[0] * 2, -1), places, best, x, None, 3, hidden, hidden


@pytest.mark.parametrize("pre_dispatch", [False, True])
@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_a_function(tracing_mode: Any, pre_dispatch: bool) -> None:
    made = make_fx(layers, tracing_mode=tracing_mode, pre_dispatch=pre_dispatch)(X, W)
    exported = graph_of(made, [X, W], name="layers")
    must_equal(exported, [X, W], layers(X, W))
    assert exported.graph.output_names == ("[0]", "[1]", "[2]", "[3]", "[6]", "[7]")
    assert exported.left_out == ("[4]", "[5]")
    assert [item.name for item in exported.graph.root.inputs] == ["x_1", "w_1"]
    assert exported.graph.root.class_name == "layers" and list(exported.graph.modules) == [""]
    assert ("aten.linear.default" in ops(exported)) is pre_dispatch


def test_symbolic_sizes_are_symbols_and_hold_for_other_sizes() -> None:
    made = make_fx(layers, tracing_mode="symbolic")(X, W)
    exported = graph_of(made, [X, W], name="layers")
    assert [(s.input, s.axis) for s in exported.graph.symbols] == [("x_1", 0), ("x_1", 1)]
    first = exported.graph.root.nodes[-1].outputs[0]
    assert first is not None and not first.is_static
    more = torch.randn(7, 4)
    must_equal(exported, [more, W], layers(more, W))


def test_tensors_that_a_function_closes_over_are_weights() -> None:
    weight, table = nn.Parameter(W.clone()), torch.arange(4.0)

    def closure(x: torch.Tensor) -> torch.Tensor:
        return (x @ weight + table) * torch.tensor([1.0, 2.0, 3.0, 4.0]) + table

    exported = graph_of(make_fx(closure)(X), [X], name="closure")
    must_equal(exported, [X], closure(X))
    kinds = {name: known.kind for name, known in exported.graph.weights.items()}
    assert sorted(kinds.values()) == ["constant", "constant", "parameter"]
    assert {name for name, kind in kinds.items() if kind == "constant"} == {"constant_0", "constant_1"}
    (own,) = (exported.weights[name] for name, kind in kinds.items() if kind == "parameter")
    assert own.data_ptr() == weight.data_ptr()


def test_a_module_with_parameters_and_a_graph_that_holds_them() -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
    exported = graph_of(traced, [X], name="net")
    must_equal(exported, [X], traced(X))
    assert ops(exported) == ["aten.linear.default", "aten.relu.default", "aten.linear.default"]
    assert set(exported.weights) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_tensors_that_are_shared_or_not_registered_are_weights() -> None:
    root = nn.Module()
    root.first, root.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    root.second.weight = root.first.weight
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    for name in ("first.weight", "second.weight"):
        x = graph.call_function(torch.ops.aten.linear.default, (x, graph.get_attr(name)))
    graph.output(graph.call_function(torch.ops.aten.add.Tensor, (x, graph.get_attr("first.weight_too"))))
    root.first.weight_too = torch.arange(4.0)
    module = torch.fx.GraphModule(root, graph)
    for node in module.graph.nodes:
        node.meta |= {} if node.op == "get_attr" else {"val": X}
    exported = graph_of(module, [X], name="shared")
    must_equal(exported, [X], module(X))
    described = {name: (weight.kind, weight.tied_to) for name, weight in exported.graph.weights.items()}
    assert described == {"first.weight": ("parameter", None), "first.weight_too": ("buffer", None)}


def test_numbers_among_the_inputs_are_those_of_the_example() -> None:
    def scaled(x: torch.Tensor, factor: float, count: int) -> torch.Tensor:
        return (x * factor).repeat(count, 1)

    exported = graph_of(make_fx(scaled)(X, 0.5, 2), [X, 0.5, 2], name="scaled")
    must_equal(exported, [X], scaled(X, 0.5, 2))


def test_a_number_that_is_free_and_no_size_is_refused() -> None:
    def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor

    made = make_fx(scaled, tracing_mode="symbolic")(X, 5)
    with pytest.raises(CaptureError, match="TP0202.*not on the shapes of the inputs"):
        graph_of(made, [X, 5], name="scaled")


def test_an_input_returned_as_it_is_and_nothing_computed() -> None:
    def same(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"x": x, "again": x}

    exported = graph_of(make_fx(same)(X), [X], name="same")
    assert ops(exported) == [] and exported.graph.output_names == ("['x']", "['again']")
    must_equal(exported, [X], [X, X])


def test_the_users_line_is_kept() -> None:
    exported = graph_of(make_fx(Branching(), record_stack_traces=True)(X), [X], name="branching")
    topk = next(node for node in exported.graph.root.nodes if node.op == "aten.topk.default")
    assert topk.source is not None and topk.hint == "best"
    file, _, line = topk.source.rpartition(":")
    assert file == __file__ and "x.topk(2)" in Path(file).read_text().splitlines()[int(line) - 1]


def test_the_manifest_of_a_graph_can_be_read_back(tmp_path: Path) -> None:
    graph = graph_of(make_fx(layers, tracing_mode="symbolic")(X, W), [X, W], name="layers").graph
    write_manifest(tmp_path / "m.json", graph, extra={})
    assert read_manifest(tmp_path / "m.json")[0] == graph


def test_another_number_of_inputs_is_refused() -> None:
    with pytest.raises(CaptureError, match="TP0208.*takes 2 inputs, and 1 are given"):
        graph_of(make_fx(layers)(X, W), [X], name="layers")


def test_an_operation_that_is_not_atens_is_refused() -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))

    with pytest.raises(CaptureError, match="TP0202"):
        graph_of(make_fx(branches, tracing_mode="fake")(X), [X], name="branches")


# In place


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    z = y.view(-1)
    y.add_(1)
    return z + 1


def writes_to_its_input(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


@pytest.mark.parametrize("function", [in_place, writes_to_its_input])
def test_a_graph_that_works_in_place_is_refused_and_functionalised_is_read(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    with pytest.raises(CaptureError, match=r"TP0202.*aten\.add_\.Tensor in place") as caught:
        graph_of(make_fx(function)(X.clone()), [X], name="writes")
    assert "functionalize" in (caught.value.fix or "")
    made = make_fx(torch.func.functionalize(function))(X.clone())
    exported = graph_of(made, [X], name="pure")
    must_equal(exported, [X], function(X.clone()))
    assert exported.writes == (("x_1",) if function is writes_to_its_input else ())


def test_an_input_that_is_returned_after_it_was_written_to_is_refused() -> None:
    def wrong(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = x.view(-1)
        x.copy_(y)
        return before, y

    with pytest.raises(CaptureError, match=r"aten\.copy_\.default in place"):
        graph_of(make_fx(wrong)(X.clone(), X + 1), [X, X], name="wrong")


def test_statistics_that_an_operation_updates_without_saying_so_are_refused() -> None:
    def normed(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, mean, variance, training=True)

    inputs = [X, torch.zeros(4), torch.ones(4)]
    made = make_fx(normed, pre_dispatch=True)(*(tensor.clone() for tensor in inputs))
    with pytest.raises(CaptureError, match="in place"):
        graph_of(made, inputs, name="normed")


# AOTAutograd


class Small(nn.Module):
    """Training: batch statistics are computed and written to buffers, one activation is in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = self.norm(self.first(x).relu_())
        values, _ = hidden.max(dim=-1)
        return self.last(hidden), values, x


class Recorder:
    """A compiler that reads the graph, and compares it with torch whenever it runs."""

    def __init__(self) -> None:
        self.read: list[Exported] = []
        self.runs = 0

    def __call__(self, module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        exported = graph_of(module, example_inputs, name="compiled")
        self.read.append(exported)

        def compiled(*inputs: Any) -> Any:
            given = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
            expected = module(*inputs)
            must_equal(exported, given, expected)
            self.runs += 1
            return expected

        return compiled


@pytest.mark.parametrize("dynamic", [False, True])
def test_forward_and_backward_of_a_model(dynamic: bool) -> None:
    forward, backward = Recorder(), Recorder()
    model = Small().train()
    compiled = aot_module(model, fw_compiler=forward, bw_compiler=backward, dynamic=dynamic)
    for size in (3, 5):
        if size == 3 or dynamic:
            scores, values, _ = compiled(torch.randn(size, 4, requires_grad=True))
            (scores.sum() + values.sum()).backward()
    assert forward.runs == backward.runs == (2 if dynamic else 1)
    assert len(forward.read) == len(backward.read) == 1
    assert bool(forward.read[0].graph.symbols) is bool(backward.read[0].graph.symbols) is dynamic
    assert "aten.threshold_backward.default" in ops(backward.read[0])
    assert forward.read[0].left_out == () and len(backward.read[0].left_out) > 0, "buffers have no gradient"


def test_forward_and_backward_of_a_function() -> None:
    forward, backward = Recorder(), Recorder()

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2), dim=-1) @ v

    inputs = [torch.randn(2, 3, 4, requires_grad=True) for _ in range(3)]
    compiled = aot_function(attention, fw_compiler=forward, bw_compiler=backward)
    compiled(*inputs).square().sum().backward()
    assert forward.runs == backward.runs == 1


def test_the_simplified_form_that_backends_use() -> None:
    recorder = Recorder()
    model = Small().eval()
    traced = torch.fx.symbolic_trace(model)
    with torch.no_grad():
        inputs = [X.clone()]
        compiled = aot_module_simplified(traced, inputs, fw_compiler=recorder, bw_compiler=recorder)
        torch.testing.assert_close(compiled(*inputs)[0], model(X)[0])
    assert recorder.runs == 1


# Dynamo


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> None:
    torch._dynamo.reset()


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)
        self.scale = torch.linspace(0.5, 2, 4)

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:
        with torch.no_grad():
            y = x * self.scale
        x = self.dense(x + y)
        best = x.topk(2)
        return torch.nn.functional.gelu(x).reshape(x.shape[0] * 2, -1), best, x.shape[0]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_of_torch_compile(dynamic: bool) -> None:
    recorder = Recorder()
    model = Branching()
    compiled = torch.compile(model, backend=recorder, dynamic=dynamic, fullgraph=True)
    torch.testing.assert_close(compiled(X)[0], model(X)[0])
    (exported,) = recorder.read
    assert recorder.runs == 1 and bool(exported.graph.symbols) is dynamic
    assert {"aten.linear.default", "aten.gelu.default"} <= set(ops(exported)), "operations stay whole"
    gelu = next(node for node in exported.graph.root.nodes if node.op == "aten.gelu.default")
    assert gelu.source is not None and gelu.source.startswith(__file__)
    if dynamic:
        compiled(torch.randn(6, 4))
        assert recorder.runs == 2


def test_a_limit_on_a_free_size_is_kept() -> None:
    recorder = Recorder()
    x = torch.randn(3, 4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    torch.compile(torch.relu, backend=recorder, fullgraph=True)(x)
    (symbol,) = recorder.read[0].graph.symbols
    assert (symbol.name, symbol.axis, symbol.high) == ("batch", 0, 64)


def test_a_graph_of_torch_compile_that_works_in_place() -> None:
    recorder = Recorder()
    model = Small().train()
    inputs = torch.randn(3, 4)
    twin = Small().train()
    twin.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend=recorder, fullgraph=True)
    torch.testing.assert_close(compiled(inputs)[0], twin(inputs)[0])
    (exported,) = recorder.read
    assert recorder.runs == 1
    assert len(exported.writes) == 3 and all("norm_buffers" in name for name in exported.writes)
    assert not any(op.split(".")[1].endswith("_") for op in ops(exported))


def test_casts_of_autocast_are_in_the_graph() -> None:
    recorder = Recorder()
    model = nn.Linear(4, 4)
    compiled = torch.compile(model, backend=recorder, fullgraph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert compiled(X).dtype == torch.bfloat16
    (exported,) = recorder.read
    assert recorder.runs == 1 and "aten._to_copy.default" in ops(exported)
    meta = exported.graph.root.nodes[-1].outputs[0]
    assert meta is not None and meta.dtype == "bfloat16"


def test_a_graph_that_reads_a_number_out_of_a_tensor_is_refused() -> None:
    def numbers(x: torch.Tensor) -> torch.Tensor:
        return x * (x.sum().item() + 1)

    found: list[CaptureError] = []

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        with pytest.raises(CaptureError, match="TP0202") as caught:
            graph_of(module, inputs, name="numbers")
        found.append(caught.value)
        return module.forward

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.compile(numbers, backend=backend, fullgraph=True)(X)
    assert len(found) == 1 and found[0].fix


def test_a_reference_stays_a_reference() -> None:
    graph = graph_of(make_fx(layers)(X, W), [X, W], name="layers").graph
    assert graph.root.outputs[1:3] == (g.Ref("topk", 1), g.Ref("topk", 0))
