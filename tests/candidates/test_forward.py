"""A candidate in PyTorch: honest ones pass, and a fault is laid where it was made."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_models
from torchport.errors import CaptureError, DiskError, RunError, TorchportError, UsageError
from torchport.parity.result import Layer
from torchport.runs.report import Report
from torchport.runs.run import Run
from torchport.trace.reading import Trace

from .models import Halved, InPlace, Many, Net, Renamed, Twice, X, honest, instead, net

pytestmark = pytest.mark.slow


def failed(report: Report) -> list[str]:
    return [layer.name for layer in report.layers if not layer.passed]


def layer(report: Report, name: str) -> Layer:
    return next(one for one in report.layers if one.name == name)


def left_out(report: Report) -> dict[str, str]:
    return {
        one.name: one.reason or "" for one in report.layers if (one.reason or "").startswith("not compared")
    }


def culprit(report: Report) -> str:
    assert report.status == "fail" and report.first_divergence is not None
    return report.first_divergence.layer


# Honest candidates


def test_a_copy_passes_at_every_layer() -> None:
    report = compare_models(net(), net(), X)
    assert report.passed and report.target == "torch" and report.model == "Net"
    assert len(report.layers) == 13 and all(one.own is not None for one in report.layers)
    assert report.outputs is not None and report.outputs.max_abs == 0.0
    assert [one.name for one in report.layers][-2:] == ["head", "Net"]
    assert layer(report, "blocks.1.up").parent == "blocks.1"


@pytest.mark.parametrize("seed", range(5))
def test_the_same_sums_in_another_order_pass(seed: int) -> None:
    torch.manual_seed(seed)
    model = Net().eval()
    report = compare_models(model, honest(model), torch.randn(4, 7, 32))
    assert report.passed and report.rule == "noise floor x 4"
    own = layer(report, "blocks.0.up").own
    assert own is not None and own.max_abs > 0 and own.noise is not None and own.noise.floor_rms > 0


def test_in_place_modules_pass() -> None:
    model = InPlace().eval()
    report = compare_models(model, honest(model), X)
    assert report.passed and layer(report, "relu").own is not None


def test_arguments_by_name_and_by_position_are_the_same_inputs() -> None:
    model = Many().eval()
    other = Many(by_name=True).eval()
    other.load_state_dict(model.state_dict())
    report = compare_models(model, other, (X, X.cos()), {"bias": X[0, 0]})
    assert report.passed and report.compared == 8


@pytest.mark.slow
def test_attention_by_other_kernels_passes_at_every_layer_of_a_bert() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    config = transformers.BertConfig(vocab_size=99, **sizes, attn_implementation="sdpa")
    model = transformers.BertModel(config).eval()
    other = transformers.BertModel(config).eval()
    other.load_state_dict(model.state_dict())
    other.set_attn_implementation("eager")
    report = compare_models(model, other, (), {"input_ids": torch.arange(40).reshape(2, 20)})
    assert report.passed, report.first_divergence
    assert layer(report, "encoder.layer.1.attention.self").own is not None
    other.encoder.layer[1].output.LayerNorm.eps = 1e-6
    report = compare_models(model, other, (), {"input_ids": torch.arange(40).reshape(2, 20)})
    assert culprit(report) == "encoder.layer.1.output.LayerNorm" and len(failed(report)) == 1


def test_the_fast_path_of_attention_does_not_hide_layers() -> None:
    model = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True).eval()
    report = compare_models(model, copy.deepcopy(model), X)
    assert report.passed and {"linear1", "norm2"} <= {one.name for one in report.layers if one.own}


# Faults


def other_eps(model: Net) -> None:
    model.blocks[1].norm.eps = 1.2e-5


def tanh_gelu(model: Net) -> None:
    model.blocks[0].act = nn.GELU(approximate="tanh")


def transposed(model: Net) -> None:
    weight = model.blocks[0].down.weight
    weight.data = weight.data.T.contiguous()


def no_bias(model: Net) -> None:
    model.blocks[1].up.bias = None


def half_inside(model: Net) -> None:
    instead(model, "blocks.1.down", Halved)


def no_residual(model: Net) -> None:
    model.blocks[1].residual = False


def scaled(model: Net) -> None:
    model.blocks[0].scale = 1.00001


def not_a_number(model: Net) -> None:
    model.blocks[0].up.weight.data[3, 4] = math.nan


@pytest.mark.parametrize(
    ("fault", "where"),
    [
        (other_eps, "blocks.1.norm"),
        (tanh_gelu, "blocks.0.act"),
        (transposed, "blocks.0.down"),
        (no_bias, "blocks.1.up"),
        (half_inside, "blocks.1.down"),
        (no_residual, "blocks.1"),
        (scaled, "blocks.0"),
        (not_a_number, "blocks.0.up"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_culprit_is_the_layer_that_is_wrong_by_itself(fault: Callable[[Net], None], where: str) -> None:
    candidate: Any = honest(net())
    fault(candidate)
    report = compare_models(net(), candidate, X)
    assert culprit(report) == where and failed(report) == [where]
    assert report.first_divergence is not None and report.first_divergence.kind == "own"


def test_a_wrong_input_of_a_call_is_the_fault_of_the_caller() -> None:
    candidate = net()
    scaled(candidate)
    divergence = compare_models(net(), candidate, X).first_divergence
    assert divergence is not None and (divergence.layer, divergence.call) == ("blocks.0", "blocks.0.down")
    assert divergence.what == "input 0 of blocks.0.down"


def test_the_source_is_the_line_of_the_candidate_that_makes_the_call() -> None:
    candidate = Renamed(net())
    candidate.out.bias.data += 1
    report = compare_models(net(), candidate, X, map={"blocks": "layers", "head": "out"})
    assert culprit(report) == "head" and report.first_divergence is not None
    file, line = (report.first_divergence.source or "").rsplit(":", 1)
    assert Path(file).read_text().splitlines()[int(line) - 1].strip() == "return self.out(x)"


def test_a_module_that_is_called_twice_is_compared_at_both_calls() -> None:
    model = Twice().eval()
    report = compare_models(model, honest(model), X)
    assert report.passed and {"shared", "shared#1"} <= {one.name for one in report.layers}
    candidate = copy.deepcopy(model)
    candidate.shared.bias.data[3] += 1e-3
    report = compare_models(model, candidate, X)
    assert culprit(report) == "shared" and failed(report) == ["shared", "shared#1"]


def test_a_further_call_is_stated_and_blames_the_caller() -> None:
    model = Twice(times=2).eval()
    candidate = Twice(times=3).eval()
    candidate.load_state_dict(model.state_dict())
    report = compare_models(model, candidate, X)
    assert culprit(report) == "Twice" and failed(report) == ["Twice"]
    times = "the candidate calls it 3 times where the reference calls it 2 times"
    for name in ("shared", "shared#1"):
        assert layer(report, name).own is not None
        assert layer(report, name).reason == f"{times}, and its other calls are not compared"


def test_a_call_that_is_missing_is_stated_and_blames_the_caller() -> None:
    model = Twice(times=3).eval()
    candidate = Twice(times=2).eval()
    candidate.load_state_dict(model.state_dict())
    report = compare_models(model, candidate, X)
    stated = "not compared: the candidate calls it 2 times where the reference calls it 3 times"
    assert culprit(report) == "Twice" and left_out(report) == {"shared#2": stated}
    assert layer(report, "shared#1").own is not None


def test_several_outputs_are_told_apart() -> None:
    model = Many().eval()
    candidate = copy.deepcopy(model)
    candidate.inner.right.weight.data *= 1.001
    report = compare_models(model, candidate, (X, X.cos()), {"bias": X[0, 0]})
    assert failed(report) == ["inner.right"]


# NaN


def test_nan_at_the_same_places_passes_and_nan_everywhere_proves_nothing() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sqrt()

    assert compare_models(Root(), Root(), X).passed
    assert not compare_models(Root(), Root(), -X.abs() - 1).passed
    assert not compare_models(Root(), lambda x: x.abs().sqrt(), X).passed


def test_fixed_tolerances_do_not_let_nan_pass() -> None:
    report = compare_models(net(), lambda x: net()(x) * math.nan, X, rtol=1e9, atol=1e9)
    assert not report.passed and "NaN on one side only" in (report.layers[-1].reason or "")


# Names


@pytest.mark.parametrize(
    "names", [{"blocks": "layers", "head": "out"}, [("^blocks", "layers"), ("^head$", "out")]]
)
def test_other_names_are_mapped(names: Any) -> None:
    candidate = Renamed(net())
    candidate.layers[1].norm.eps = 1e-4  # type: ignore[union-attr]
    report = compare_models(net(), candidate, X, map=names)
    assert failed(report) == ["blocks.1.norm"]
    assert left_out(report) == {"blocks": "not compared: the candidate never calls it"}


def test_modules_that_the_candidate_lacks_are_named_and_the_outputs_judged() -> None:
    candidate = Renamed(net())
    report = compare_models(net(), candidate, X)
    assert report.passed and len(left_out(report)) == 12 and report.compared == 1
    assert set(left_out(report).values()) == {"not compared: the candidate has no such module"}
    candidate.layers[1].norm.eps = 1e-4  # type: ignore[union-attr]
    assert culprit(compare_models(net(), candidate, X)) == "Net"


def test_a_module_mapped_to_none_is_not_compared() -> None:
    candidate = net()
    other_eps(candidate)
    report = compare_models(net(), candidate, X, map={"blocks.1.norm": None})
    assert culprit(report) == "blocks.1"
    assert left_out(report) == {"blocks.1.norm": "not compared: map= leaves it out"}


@pytest.mark.parametrize(
    ("names", "what"),
    [
        ({"block": "layers"}, "the reference has no 'block'"),
        ({"blocks": "stages"}, "the candidate has no 'stages'"),
        ([("^nothing", "x")], "changes no path"),
        ([("(", "x")], "is no rule"),
        ({"blocks.0": "layers.1", "blocks.1": "layers.1"}, "the same name 'layers.1"),
    ],
)
def test_a_map_that_cannot_be_meant_raises(names: Any, what: str) -> None:
    with pytest.raises(UsageError, match=f"TP0801: .*{what}"):
        compare_models(net(), Renamed(net()), X, map=names)


def test_other_inputs_of_a_module_are_stated() -> None:
    class Masked(nn.Linear):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(x)

    class Root(nn.Module):
        def __init__(self, fc: nn.Module, with_mask: bool) -> None:
            super().__init__()
            self.fc, self.with_mask = fc, with_mask

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x, x > 0) if self.with_mask else self.fc(x)

    model, candidate = Root(Masked(32, 32), True).eval(), Root(Masked(32, 32), False).eval()
    candidate.load_state_dict(model.state_dict())
    report = compare_models(candidate, model, X)
    stated = "its other inputs are not compared: it is given 2 tensors, in the reference 1"
    assert report.passed and layer(report, "fc").reason == stated
    report = compare_models(model, candidate, X)
    assert report.passed
    assert (
        layer(report, "fc").reason
        == "its other inputs are not compared: it is given 1 tensors, in the reference 2"
    )


# Compiled code and functions


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.slow
def test_a_compiled_module_is_judged_by_its_outputs(backend: str) -> None:
    model = net()
    report = compare_models(model, torch.compile(model, backend=backend), X)
    assert report.passed and report.compared == 1
    stated = "not compared: the candidate is compiled, and what is inside it is not seen"
    assert set(left_out(report).values()) == {stated}
    candidate = net()
    other_eps(candidate)
    candidate.blocks[1].norm.eps = 2e-5
    assert culprit(compare_models(model, torch.compile(candidate, backend=backend), X)) == "Net"


def test_a_compiled_part_is_one_layer() -> None:
    candidate = net()
    candidate.blocks[0] = torch.compile(candidate.blocks[0], backend="eager")  # type: ignore[assignment]
    report = compare_models(net(), candidate, X)
    assert report.passed and layer(report, "blocks.0").own is not None
    assert set(left_out(report)) == {f"blocks.0.{name}" for name in ("norm", "up", "act", "down")}


def test_layers_false_compares_the_outputs_alone() -> None:
    report = compare_models(net(), honest(net()), X, layers=False)
    assert report.passed and report.compared == 1 and len(left_out(report)) == 12


def test_a_function_is_judged_by_its_outputs() -> None:
    model = net()
    assert compare_models(model, lambda x: model(x), X).passed
    assert culprit(compare_models(model, lambda x: model(x) * (1 + 1e-5), X)) == "Net"


# Structures


class _Hidden:
    """A class that nothing can look into."""

    def __init__(self, value: Tensor) -> None:
        self.read = lambda: value


def test_another_structure_of_the_outputs_is_named() -> None:
    report = compare_models(net(), lambda x: {"y": net()(x)}, X)
    assert culprit(report) == "Net" and report.first_divergence is not None
    assert report.first_divergence.reason == "returns tensor at ['y'] where a tensor was expected"
    assert report.layers[-1].reason == f"output: {report.first_divergence.reason}"


def test_plain_values_in_outputs_must_be_equal() -> None:
    model = Many().eval()

    def other(x: Tensor, y: Tensor, bias: Tensor) -> Any:
        result = model(x, y, bias=bias)
        result.count = 3
        return result

    report = compare_models(model, other, (X, X), {"bias": X[0, 0]})
    assert not report.passed and "3 at ['count']" in (report.layers[-1].reason or "")


def test_another_shape_is_named_and_stops_nothing() -> None:
    candidate = net()
    candidate.head = nn.Linear(32, 8)
    report = compare_models(net(), candidate, X)
    assert culprit(report) == "head" and report.first_divergence is not None
    assert report.first_divergence.reason == "shape [4, 7, 8] where [4, 7, 16] was expected"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (tuple, "its other outputs are not compared: it returns 2 tensors, in the reference 1"),
        (_Hidden, "output: returns 0 tensors where 1 were expected"),
    ],
    ids=["more", "less"],
)
def test_an_inner_layer_that_returns_more_or_less_is_named(kind: type, reason: str) -> None:
    class Single(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return (super().forward(x), None)  # type: ignore[return-value]

    class Pair(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return (y, y * 2) if kind is tuple else _Hidden(y)  # type: ignore[return-value]

    class Root(nn.Module):
        def __init__(self, fc: nn.Module) -> None:
            super().__init__()
            self.fc = fc

        def forward(self, x: Tensor) -> Tensor:
            y = self.fc(x)
            return y.read() if isinstance(y, _Hidden) else y[0]

    model, candidate = Root(Single(32, 32)), Root(Pair(32, 32))
    candidate.load_state_dict(model.state_dict())
    report = compare_models(model, candidate, X)
    assert report.passed == (kind is tuple)
    assert layer(report, "fc").reason == reason


@pytest.mark.parametrize("value", [1.5, object()], ids=["float", "object"])
def test_what_cannot_be_compared_raises(value: Any) -> None:
    with pytest.raises(CaptureError, match="TP0205: the output \\[1\\] is of class"):
        compare_models(net(), lambda x: (net()(x), value), X)


# Precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_coarser_candidate_is_measured_by_the_reference_in_its_dtype(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    x = torch.randn(4, 7, 32)
    report = compare_models(net(), honest(net()).to(dtype), x)
    assert report.passed and report.rule == f"noise floor x 4 in {name}"
    assert report.outputs is not None and report.outputs.golden_dtype == name
    candidate = net()
    candidate.blocks[0].act = nn.ReLU()
    report = compare_models(net(), candidate.to(dtype), x)
    assert failed(report) == ["blocks.0.act"]


def test_a_layer_that_is_coarser_than_the_candidates_weights_fails() -> None:
    class Narrow(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.float()).bfloat16()

    class Root(nn.Module):
        def __init__(self, kind: type[nn.Linear]) -> None:
            super().__init__()
            self.fc = kind(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x).float()

    model, candidate = Root(nn.Linear), Root(Narrow)
    candidate.load_state_dict(model.state_dict())
    assert culprit(compare_models(model, candidate, X)) == "fc"


def test_float64_has_no_truth_and_float32_of_it_has() -> None:
    wide = net().double()
    report = compare_models(wide, honest(net()).double(), X.double())
    assert report.passed and "no float64 truth" in (layer(report, "head").rule or "")
    report = compare_models(wide, net(), X.double())
    assert report.passed and report.rule == "noise floor x 4 in float32"
    own = layer(report, "head").own
    assert own is not None and own.noise is not None and own.noise.floor_rms > 0


def test_the_truth_is_in_float64_even_where_the_model_casts_to_float32() -> None:
    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 32))

        def forward(self, x: Tensor) -> Tensor:
            wide = x.to(torch.float32)
            table = torch.arange(32, dtype=torch.float32) / 7
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * table).to(
                x.dtype
            ) * self.weight

    model = Casting()
    report = compare_models(model, Casting(), X)
    x = X.double()
    table = torch.arange(32, dtype=torch.float64) / 7
    exact = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * table * model.weight.double()
    own = report.layers[0].own
    assert own is not None and own.noise is not None
    expected = (exact - model(X).double()).square().mean().sqrt().item()
    assert own.noise.floor_rms == pytest.approx(expected, rel=1e-3)


def test_where_float64_cannot_be_had_the_rule_says_so() -> None:
    class Picky(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            return x * 2

    report = compare_models(Picky(), Picky(), X)
    assert report.passed and "no float64 truth" in (report.layers[0].rule or "")


def test_tolerances_are_those_given() -> None:
    candidate = net()
    other_eps(candidate)
    report = compare_models(net(), candidate, X, atol=1e-3)
    assert report.passed and report.rule == "rtol 0, atol 0.001"
    with pytest.raises(UsageError):
        compare_models(net(), candidate, X, atol=math.nan)


# Modes, randomness, and what is left behind


def test_a_model_that_is_random_is_refused() -> None:
    noisy = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5))
    with pytest.raises(CaptureError, match="TP0204: the reference .* training mode") as caught:
        compare_models(noisy.train(), noisy, X)
    assert "reference.eval()" in (caught.value.fix or "")
    quiet = copy.deepcopy(noisy).eval()
    with pytest.raises(CaptureError, match="TP0204: the candidate"):
        compare_models(quiet, noisy.train(), X)
    assert compare_models(quiet, copy.deepcopy(quiet), X).passed


def test_training_without_randomness_is_compared_in_training_mode() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(7)).train()
    before = copy.deepcopy(model.state_dict())
    assert compare_models(model, copy.deepcopy(model), X).passed
    candidate = copy.deepcopy(model)
    candidate[1].eval()
    assert failed(compare_models(model, candidate, X)) == ["1"]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_models_and_random_numbers_come_back_as_they_were() -> None:
    model, candidate = net(), honest(net()).half()
    candidate.train()
    handle = model.head.register_forward_hook(lambda *_: None)
    addresses = [(p.data_ptr(), p.dtype) for m in (model, candidate) for p in m.parameters()]
    state, default = torch.get_rng_state(), torch.get_default_dtype()
    given = X.clone()
    compare_models(model, candidate, given)
    assert addresses == [(p.data_ptr(), p.dtype) for m in (model, candidate) for p in m.parameters()]
    assert torch.equal(state, torch.get_rng_state()) and torch.get_default_dtype() == default
    assert torch.equal(given, X) and not model.training and candidate.training
    assert list(model.head._forward_hooks) == [handle.id]
    hooks = [m._forward_hooks or m._forward_pre_hooks for m in (*model.modules(), *candidate.modules())]
    assert sum(map(len, hooks)) == 1


# Errors


def broken(x: Tensor) -> Tensor:
    raise ValueError("no such luck")


def test_a_candidate_that_raises_is_told_with_its_line() -> None:
    with pytest.raises(RunError, match="TP0603: the candidate fails .* ValueError: no such luck") as caught:
        compare_models(net(), broken, X)
    assert caught.value.where == f"{__file__}:{broken.__code__.co_firstlineno + 1}"


def test_a_reference_that_raises_is_told() -> None:
    with pytest.raises(CaptureError, match="TP0201: the reference fails"):
        compare_models(net(), net(), torch.ones(3))


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (broken, net()),
        (net(), 3),
        (torch.compile(net(), backend="eager"), net()),
    ],
    ids=["function", "number", "compiled"],
)
def test_what_cannot_be_compared_is_a_wrong_usage(reference: Any, candidate: Any) -> None:
    with pytest.raises(UsageError, match="TP0801"):
        compare_models(reference, candidate, X)


def test_a_model_without_values_is_refused() -> None:
    with pytest.raises(CaptureError, match="meta device"):
        compare_models(nn.Linear(4, 4, device="meta"), nn.Linear(4, 4), torch.ones(1, 4))
    with pytest.raises(CaptureError, match="lazy"):
        compare_models(nn.Linear(4, 4), nn.LazyLinear(4), torch.ones(1, 4))


# Files


def test_a_kept_comparison_is_a_run_that_views_can_read(tmp_path: Path) -> None:
    candidate = honest(net())
    candidate.blocks[0].scale = 2.0  # type: ignore[index, union-attr]
    report = compare_models(net(), candidate, X, out=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert run.report == report and report.report == str(tmp_path / "run" / "report.json")
    assert run.golden is not None and run.lockstep is not None and run.chained is not None
    with Trace(run.golden) as golden, Trace(run.lockstep) as lockstep:
        torch.testing.assert_close(golden.get("Net"), net()(X).detach(), rtol=0, atol=0)
        assert not torch.equal(golden.get("blocks.0.down<0"), lockstep.get("blocks.0.down<0"))


def test_without_a_directory_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = compare_models(net(), net(), X)
    assert report.report is None and report.files == {} and not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="TP0330"):
        compare_models(net(), net(), X, out=tmp_path / "file" / "run")


def test_every_error_is_one_of_ours() -> None:
    assert all(issubclass(kind, TorchportError) for kind in (CaptureError, DiskError, RunError, UsageError))
