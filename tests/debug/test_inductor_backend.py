"""`torchport_inductor` sees every graph, stops or warns, and leaves nothing of its own in torch's settings.

The models here only multiply matrices: Inductor calls a library for that, and no C++ is compiled.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.backends.inductor import InductorBackend, backend_for
from torchport.debug.backends.outside import outside_watched
from torchport.debug.constraints import ShapeConstraint
from torchport.debug.constraints.base import CheckedGraph, Constraint, Found
from torchport.debug.folders import ROOT, delete, runs_in
from torchport.debug.session import Session
from torchport.debug.tree import ArtifactTree
from torchport.errors import CompileError, UsageError


class Denied(Constraint):
    """No operation of a name, at one stage or at all."""

    name = "denied"

    def __init__(self, op: str, *stages: str) -> None:
        self.op = op
        self.stages = stages or ("dynamo", "forward", "backward")  # type: ignore[assignment]

    def check(self, graph: CheckedGraph) -> Iterable[Found]:
        return [self.violated_by(node, f"{self.op} is denied") for node in graph.nodes if node.op == self.op]


def product(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def operands(rows: int = 4) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)


def stages(backend: InductorBackend) -> list[tuple[str, str]]:
    return [(graph.name, graph.stage) for graph in backend.session.graphs]


def tree_of(backend: InductorBackend) -> ArtifactTree:
    assert backend.session.tree is not None
    return backend.session.tree


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder for artifacts."""
    return tmp_path / "out"


@pytest.fixture
def warnings_of_debug(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="torchport.debug"):
        yield caplog


def test_gradients_of_training_steps_are_those_of_eager() -> None:
    def train(backend: object | None) -> list[Tensor]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Linear(16, 4, bias=False))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = model if backend is None else torch.compile(model, backend=backend)
        for step in range(3):
            torch.manual_seed(step)
            optimizer.zero_grad()
            out = run(torch.randn(6, 8))
            out.backward(torch.ones_like(out))
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    backend = InductorBackend()
    for eager, compiled in zip(train(None), train(backend), strict=True):
        torch.testing.assert_close(compiled, eager)
    assert stages(backend) == [("graph_0", "dynamo"), ("graph_0", "forward"), ("graph_0", "backward")]


def test_aotautograd_runs_once_for_a_graph() -> None:
    from torch._functorch import aot_autograd

    runs = 0
    create = aot_autograd.create_aot_state

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal runs
        runs += 1
        return create(*args, **kwargs)

    given = [one.requires_grad_() for one in operands()]
    for backend in ("inductor", InductorBackend()):
        torch.compiler.reset()
        before = runs
        with patch.object(aot_autograd, "create_aot_state", counted):
            torch.compile(product, backend=backend)(*given).sum().backward()
        assert runs - before == 1, backend


def test_a_model_without_parameters_has_no_backward_graph() -> None:
    backend = InductorBackend()
    x, w = (one.detach() for one in operands())
    torch.testing.assert_close(torch.compile(product, backend=backend)(x, w), x @ w)
    assert stages(backend) == [("graph_0", "dynamo"), ("graph_0", "forward")]


def test_a_backward_graph_that_is_never_run_is_neither_compiled_nor_checked(out: Path) -> None:
    backend = InductorBackend(constraints=[Denied("aten.mm.default", "backward")], artifacts=out)
    x, w = operands()
    result = torch.compile(product, backend=backend)(x, w)
    assert stages(backend) == [("graph_0", "dynamo"), ("graph_0", "forward")]
    with pytest.raises(CompileError, match=r"TP1001.*\n.*aten.mm.default is denied"):
        result.sum().backward()
    assert stages(backend)[-1] == ("graph_0", "backward")
    assert (out / "aot_graphs" / "graph_0_backward.py").is_file()


@pytest.mark.parametrize(
    ("stage", "op"),
    [("dynamo", "operator.matmul"), ("forward", "aten.mm.default"), ("backward", "aten.mm.default")],
)
def test_strict_stops_with_node_line_and_script(out: Path, stage: str, op: str) -> None:
    backend = InductorBackend(constraints=[Denied(op, stage)], artifacts=out)
    x, w = operands()
    with pytest.raises(CompileError, match=f"{op} is denied") as raised:
        torch.compile(product, backend=backend)(x, w).sum().backward()
    text = str(raised.value)
    assert "TP1001" in text and Path(__file__).name in text
    assert str(out / "repros" / f"graph_0_{stage}_denied.py") in text and stages(backend)[-1] == (
        "graph_0",
        stage,
    )
    (violation, *_) = backend.session.violations
    assert (
        violation.stage == stage
        and "return x @ w"
        in Path(__file__).read_text().splitlines()[int(str(violation.source).rpartition(":")[2]) - 1]
    )


def test_strict_without_artifacts_writes_its_script_to_where_runs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    backend = InductorBackend(constraints=[Denied("operator.matmul")])
    assert not ROOT.exists()
    for number in range(2):
        torch.compiler.reset()
        with pytest.raises(CompileError, match="TP1001") as raised:
            torch.compile(product, backend=backend)(*operands())
        (script,) = ROOT.rglob(f"graph_{number}_dynamo_denied.py")
        assert str(script) in str(raised.value)
    (run,) = runs_in(ROOT)
    assert not list((tmp_path / "temporary").glob("torchport*")), "nothing is left that no command knows"
    delete(run)
    assert not list(ROOT.iterdir())


def test_not_strict_warns_and_goes_on(warnings_of_debug: pytest.LogCaptureFixture) -> None:
    backend = InductorBackend(constraints=[Denied("aten.mm.default")], strict=False)
    x, w = operands()
    torch.compile(product, backend=backend)(x, w).sum().backward()
    torch.testing.assert_close(w.grad, x.detach().T @ torch.ones(4, 8))
    assert len(backend.session.violations) == 3
    (warned,) = [record.message for record in warnings_of_debug.records if "denied" in record.message]
    assert warned.startswith("graph_0 (forward): denied"), "all three are of one line, which is named once"


def test_free_sizes_are_compiled_once_and_a_bad_backward_is_refused_each_time(out: Path) -> None:
    def halves(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).view(2 * x.shape[0], 4)

    backend = InductorBackend(artifacts=out)
    run = torch.compile(halves, backend=backend, dynamic=True)
    for rows in (4, 6):
        x, w = operands(rows)
        run(x, w).backward(torch.ones(2 * rows, 4))
        torch.testing.assert_close(w.grad, x.detach().T @ torch.ones(rows, 8))
    assert [stage for _, stage in stages(backend)].count("backward") == 1
    assert json.loads((out / "statistics" / "graph_0_forward.json").read_text())["free_sizes"] is True

    torch.compiler.reset()
    strict = InductorBackend(constraints=[Denied("aten.mm.default", "backward")])
    refused = torch.compile(halves, backend=strict, dynamic=True)
    for _ in range(2):
        with pytest.raises(CompileError, match="TP1001"):
            refused(*operands(5)).backward(torch.ones(10, 4))
    assert stages(strict).count(("graph_0", "backward")) == 1


def test_a_graph_is_checked_with_each_new_value_of_its_free_sizes() -> None:
    backend = InductorBackend(constraints=[ShapeConstraint(alignment=4, dims=(0,))])
    run = torch.compile(lambda x, w: x @ w, backend=backend, dynamic=True)
    w = torch.randn(8, 8)
    torch.testing.assert_close(run(torch.ones(12, 8), w), torch.ones(12, 8) @ w)
    with pytest.raises(CompileError, match=r"TP1001.*graph_0 \(dynamo\).*\n.*13"):
        run(torch.ones(13, 8), w)


def test_what_graphs_run_is_not_outside_of_them() -> None:
    backend = InductorBackend()
    x, w = operands()
    with outside_watched(backend.session):
        torch.compile(product, backend=backend)(x, w).backward(torch.ones(4, 8))
    assert not [node.op for node in backend.session.graphs[-1].nodes if "mm" in node.op]


def test_two_threads_compile_with_one_backend(out: Path) -> None:
    backend = InductorBackend(artifacts=out)
    found: dict[int, bool] = {}

    def work(width: int) -> None:
        def square(x: Tensor) -> Tensor:
            return x @ x @ x

        x = torch.randn(width, width)
        found[width] = torch.allclose(torch.compile(square, backend=backend)(x), x @ x @ x, atol=1e-5)

    threads = [threading.Thread(target=work, args=(width,)) for width in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {3: True, 4: True}
    assert {name for name, _ in stages(backend)} == {"graph_0", "graph_1"}
    index = json.loads((out / "index.json").read_text())
    assert {one["path"] for one in index["artifacts"]} == files(out) - {"index.json"}


def test_a_graph_that_inductor_refuses_stays_in_the_tree(out: Path) -> None:
    @torch.library.custom_op("torchport_tests::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    @twice.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    backend = InductorBackend(artifacts=out, options={"implicit_fallbacks": False})
    with pytest.raises(Exception, match="twice") as raised:
        torch.compile(lambda x: twice(x @ x), backend=backend)(torch.randn(4, 4))
    assert str(out) in "".join(getattr(raised.value, "__notes__", []))
    assert {"fx_graphs/graph_0.py", "aot_graphs/graph_0_forward.py"} <= files(out)
    assert any("no script" in problem and "twice" in problem for problem in tree_of(backend).problems)
    assert "twice" in (out / "reports" / "graph_0_forward_error.txt").read_text()


def test_a_file_in_the_place_of_the_folder_stops_nothing(
    tmp_path: Path, warnings_of_debug: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("mine")
    backend = InductorBackend(artifacts=tmp_path / "taken")
    x, w = operands()
    torch.testing.assert_close(torch.compile(product, backend=backend)(x, w), x @ w)
    assert tree_of(backend).problems and str(tmp_path / "taken") in tree_of(backend).problems[0]
    assert (tmp_path / "taken").read_text() == "mine" and len(stages(backend)) == 2
    assert any("cannot write" in record.message for record in warnings_of_debug.records)


def test_a_disk_that_gets_full_stops_nothing(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        with open("/dev/full", "wb", buffering=0) as device:
            return device.write(data)

    backend = InductorBackend(artifacts=out)
    x, w = operands()
    run = torch.compile(product, backend=backend)
    result = run(x, w)
    before = files(out)
    monkeypatch.setattr(Path, "write_bytes", full)
    result.sum().backward()
    torch.testing.assert_close(w.grad, x.detach().T @ torch.ones(4, 8))
    assert files(out) == before, "no file is half-written"
    assert any("No space left" in problem for problem in tree_of(backend).problems)


def test_no_room_for_traces_costs_only_the_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    backend = InductorBackend(artifacts=tmp_path / "out")
    x, w = (one.detach() for one in operands())
    torch.testing.assert_close(torch.compile(product, backend=backend)(x, w), x @ w)
    assert "aot_graphs/graph_0_forward.py" in files(tmp_path / "out")
    assert any("IR and kernels are not kept" in problem for problem in tree_of(backend).problems)


def test_nothing_is_left_in_settings_folders_or_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch._functorch import config as functorch
    from torch._inductor import config as inductor

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    before = inductor.get_config_copy(), functorch.get_config_copy()
    seen = []

    def others() -> None:
        seen.append((inductor.trace.enabled, functorch.enable_autograd_cache))

    class Looking(Constraint):
        name = "looking"

        def check(self, graph: CheckedGraph) -> Iterable[Found]:
            thread = threading.Thread(target=others)
            thread.start()
            thread.join()
            return []

    x, w = operands()
    backend = InductorBackend(constraints=[Looking()], artifacts=tmp_path / "out")
    torch.compile(product, backend=backend)(x, w).sum().backward()
    assert (inductor.get_config_copy(), functorch.get_config_copy()) == before
    if torch.__version__ >= "2.14":
        assert set(seen) == {(before[0]["trace.enabled"], before[1]["enable_autograd_cache"])}
    left = {path.name for path in (tmp_path / "temporary").iterdir()}
    assert (
        not {name for name in left if "torchport" in name} and not (tmp_path / "torch_compile_debug").exists()
    )
    assert "debug trace" not in caplog.text


def test_artifacts_are_written_although_the_caches_know_the_graph(out: Path) -> None:
    from torch._dynamo.utils import counters
    from torch._functorch import config as functorch
    from torch._inductor import config as inductor

    x, w = (one.detach() for one in operands())
    with inductor.patch(force_disable_caches=False), functorch.patch(enable_autograd_cache=True):
        torch.compile(product)(x, w)
        before = counters["aot_autograd"]["autograd_cache_hit"]
        torch.compiler.reset()
        torch.compile(product)(x, w)
        assert counters["aot_autograd"]["autograd_cache_hit"] == before + 1
        torch.compiler.reset()
        torch.compile(product, backend=InductorBackend(artifacts=out))(x, w)
    assert {"aot_graphs/graph_0_forward.py", "inductor_kernels/graph_0_forward/output_code.py"} <= files(out)


def test_the_backend_is_found_by_name_and_shares_a_session(out: Path) -> None:
    options = {"artifacts": str(out), "constraints": [], "max_autotune": False}
    x, w = (one.detach() for one in operands())
    for _ in range(2):
        torch.compiler.reset()
        torch.compile(product, backend="torchport_inductor", options=options)(x, w)
    backend = backend_for({"artifacts": str(out), "constraints": []})
    assert [name for name, stage in stages(backend) if stage == "forward"] == ["graph_0", "graph_1"]
    assert "aot_graphs/graph_1_forward.py" in files(out)


def test_a_mode_is_taken_as_torch_compile_takes_it() -> None:
    x, w = (one.detach() for one in operands())
    out = torch.compile(product, backend=InductorBackend(), mode="reduce-overhead")(x, w)
    torch.testing.assert_close(out, x @ w)


def test_options_that_there_are_not_are_refused_with_the_next_best() -> None:
    with pytest.raises(UsageError, match="TP1011: there is no option max_autotun"):
        torch.compile(product, backend="torchport_inductor", options={"max_autotun": True})(*operands())
    for wrong in ({"strict": "yes"}, {"artifacts": 3}, {"constraints": ["mm"]}, {"repro_inputs": "some"}):
        with pytest.raises(UsageError, match="TP1012"):
            InductorBackend(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="its own"):
        InductorBackend(session=Session(), artifacts="out")


def test_a_graph_break_gives_two_graphs() -> None:
    def broken(x: Tensor) -> Tensor:
        first = x @ x
        torch._dynamo.graph_break()
        return first @ x

    backend = InductorBackend()
    torch.compile(broken, backend=backend)(torch.eye(3))
    assert [name for name, stage in stages(backend) if stage == "dynamo"] == ["graph_0", "graph_1"]
