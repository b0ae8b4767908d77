"""A failure is said by its cause, and one fault in a class is one finding, however often the class is used."""

from pathlib import Path

import pytest

from torchport.capture.source import function_at
from torchport.parity.result import Failure, Layer
from torchport.report import phrases
from torchport.report.places import shown
from torchport.runs.findings import findings
from torchport.runs.report import Report

from ..report.sample import failing, layer, passing
from ..report.views import full


def wrong(name: str, type: str, parent: str | None = None, value: str = "") -> Layer:
    failure = Failure(key=f"{name}{value}", what="output", reason="too far", is_missing=False)
    return layer(name, 0.5).model_copy(update={"type": type, "parent": parent, "failure": failure})


def of(*layers: Layer) -> Report:
    report = failing(0.5)
    assert report.first_divergence is not None
    culprit = report.first_divergence.model_copy(update={"layer": layers[-1].name})
    return report.model_copy(update={"layers": layers, "first_divergence": culprit})


def grouped(*layers: Layer) -> list[list[str]]:
    return [[one.name for one in finding.layers] for finding in findings(of(*layers))]


def test_a_class_that_is_wrong_four_times_is_one_finding_in_four_places() -> None:
    blocks = [
        wrong(f"blocks.{i}", "net.Block").model_copy(update={"cause": "add where the model has sub"})
        for i in range(4)
    ]
    report = of(*blocks)
    assert [len(one.layers) for one in findings(report)] == [4]
    assert phrases.headline(report).endswith("4 of 4 layers diverge, all in the same way (noise floor x 4)")
    assert [name for _, name in phrases.worst(report, 8)] == ["blocks.3 (and 3 alike)"]
    assert phrases.also_in(report) == "blocks.0, blocks.1, blocks.2"


def test_layers_of_one_class_with_other_causes_are_other_findings() -> None:
    causes = ("add where the model has sub", "mul where the model has sub", "")
    blocks = [
        wrong(f"blocks.{i}", "net.Block").model_copy(update={"cause": cause})
        for i, cause in enumerate((*causes, *causes))
    ]
    assert grouped(*blocks) == [["blocks.5", "blocks.2"], ["blocks.0", "blocks.3"], ["blocks.1", "blocks.4"]]
    assert "6 of 6 layers diverge, in 3 ways" in phrases.headline(of(*blocks))


def test_without_a_cause_only_errors_of_one_size_are_alike_and_no_one_fault_is_claimed() -> None:
    near, far = (
        layer(name, error).model_copy(update={"type": "net.Block"})
        for name, error in (("b", 0.9), ("c", 50.0))
    )
    assert grouped(far, near, wrong("a", "net.Block")) == [["a", "b"], ["c"]]
    said = phrases.headline(of(near, wrong("a", "net.Block")))
    assert "2 of 2 layers diverge, all of one class and by about as much" in said


def test_other_values_of_one_class_are_other_findings() -> None:
    found = grouped(wrong("a", "net.Block", value="<0"), wrong("b", "net.Block"))
    assert found == [["b"], ["a"]], "the culprit's first"


def test_a_layer_of_torch_is_alike_only_in_the_same_part_of_the_same_class() -> None:
    blocks = [layer(f"blocks.{i}", 0.0).model_copy(update={"type": "net.Block"}) for i in range(2)]
    linear = "torch.nn.modules.linear.Linear"
    inside = [wrong(f"blocks.{i}.{part}", linear, f"blocks.{i}") for i in range(2) for part in ("fc1", "fc2")]
    assert grouped(*inside, *blocks) == [
        ["blocks.0.fc1", "blocks.1.fc1"],
        ["blocks.0.fc2", "blocks.1.fc2"],
    ]
    assert grouped(wrong("a", linear), wrong("b", linear)) == [["b"], ["a"]], "nobody knows whose they are"


def test_a_name_is_no_part_of_another() -> None:
    report = of(wrong("blocks.1", "net.Block"), wrong("blocks.10", "net.Block"))
    assert [len(one.layers) for one in findings(report)] == [2]


def test_a_failure_is_said_by_its_cause_and_then_by_its_measure() -> None:
    report = full()
    assert report.first_divergence is not None and report.first_divergence.operation is not None
    operation = report.first_divergence.operation.model_copy(update={"function": "Norm.forward"})
    divergence = report.first_divergence.model_copy(update={"operation": operation})
    report = report.model_copy(update={"first_divergence": divergence})
    assert phrases.headline(report) == (
        "Net to candle: layer_norm: eps is 1e-05 where the model has 1e-12, in Norm.forward, lib/norms.py:12"
    )
    assert phrases.measure(report) == "2 of 4 layers diverge (noise floor x 4)"
    assert phrases.measure(failing(0.5)) is None and phrases.measure(passing()) is None


def test_a_function_is_named_with_its_class_also_inside_of_branches(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "def helper(x):\n    return x\n\n\nclass Net:\n    def forward(self, x):\n"
        "        if x:\n            for y in x:\n                x = y\n        return x\n\nz = 1\n"
    )
    found = [function_at(f"{file}:{line}") for line in (2, 9, 12)]
    assert found == ["helper", "Net.forward", None]
    assert function_at(None) is None and function_at(f"{tmp_path}/none.py:1") is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{here}/net.py:3", "net.py:3"),
        (
            "{here}/.venv/lib/python3.12/site-packages/torch/nn/modules/linear.py:130",
            "torch/nn/modules/linear.py:130",
        ),
        ("/opt/lib/python3/dist-packages/timm/layers/mlp.py:7", "timm/layers/mlp.py:7"),
        ("/elsewhere/net.py:3", "/elsewhere/net.py:3"),
        (None, None),
    ],
)
def test_paths_begin_at_the_working_directory_or_at_the_package(
    source: str | None, said: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(source and source.format(here=tmp_path)) == said


def test_own_error_and_limit_speak_of_one_distance() -> None:
    for one in passing().layers:
        if one.own is not None and one.own.judged and one.own.ratio:
            assert float(phrases.own_error(one.own)) / float(phrases.limit(one.own)) == pytest.approx(
                one.own.ratio, rel=0.1
            )
