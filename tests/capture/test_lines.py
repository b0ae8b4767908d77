"""The line of an operation is its own, also if a helper of `forward` has it; `forward` names the values."""

from __future__ import annotations

import inspect

import torch
from torch import nn

from torchport.capture import source
from torchport.capture.export import export
from torchport.capture.graph import Module


def halved(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 0.5


def helped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    inner = halved(x)
    return inner - y


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.fc(x)
        turned = helped(z, x)
        return nn.functional.gelu(turned)


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x) + 1


def modules() -> dict[str, Module]:
    return export(Whole().eval(), (torch.randn(2, 4),), {}, name="whole").graph.modules


def line(function: object, text: str) -> str:
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    return f"{__file__}:{first + next(at for at, one in enumerate(lines) if text in one)}"


def test_the_line_of_an_operation_is_that_of_the_helper_that_has_it() -> None:
    found = {node.op.split(".")[1]: node.source for node in modules()["part"].nodes if node.op != "call"}
    assert found["sin"] == line(halved, "x.sin()")
    assert found["sub"] == line(helped, "inner - y")
    assert found["gelu"] == line(Part.forward, "gelu"), "torch's own functions are no helpers of the model"


def test_values_are_named_after_the_variables_of_forward_and_calls_have_its_lines() -> None:
    found = modules()
    assert next(node.hint for node in found["part"].nodes if ".sub." in node.op) == "turned"
    assert next(node.source for node in found[""].nodes if node.op == "call") == line(
        Whole.forward, "self.part"
    )
    assert next(node.source for node in found["part"].nodes if node.op == "call") == line(
        Part.forward, "self.fc"
    )


def test_the_function_around_a_helpers_line_is_the_helper() -> None:
    assert source.function_at(line(helped, "inner - y")) == "helped"
    assert source.function_at(line(Part.forward, "gelu")) == "Part.forward"


def test_a_helper_is_of_the_model_or_of_the_package_that_has_the_forward() -> None:
    packages = "/venv/lib/python3.12/site-packages"
    assert source.is_helper(f"{packages}/timm/layers/a.py", f"{packages}/timm/models/b.py")
    assert source.is_helper("/home/me/net/rope.py", f"{packages}/timm/models/b.py")
    assert not source.is_helper(f"{packages}/einops/einops.py", "/home/me/net/model.py")
    assert not source.is_helper(f"{packages}/torch/functional.py", f"{packages}/torch/nn/modules/linear.py")
    assert not source.is_helper(inspect.__file__, "/home/me/net/model.py")
