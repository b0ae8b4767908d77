"""The model comes back as it was, whether the recording went well or not."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from torchport import TorchportError
from torchport.capture import state
from torchport.capture.recorder import record

from . import models

Recording = Callable[[nn.Module], None]


def well(model: nn.Module) -> None:
    record(model, torch.randn(2, 4))


def by_hooks(model: nn.Module) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.inner(x)
            return y if y.sum() > 0 else -y

    assert record(Outer(), torch.randn(2, 4)).export_error is not None


def badly(model: nn.Module) -> None:
    with pytest.raises(TorchportError, match="TP0201"):
        record(model, torch.randn(2, 5, 6, 7))


however = pytest.mark.parametrize("recording", [well, by_hooks, badly])


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(self.norm(self.first(x))))


@however
def test_the_mode_of_every_module(recording: Recording) -> None:
    model = Plain().train()
    model.norm.eval()
    before = {name: module.training for name, module in model.named_modules()}
    recording(model)
    assert {name: module.training for name, module in model.named_modules()} == before
    assert model.training and not model.norm.training and model.drop.training


@however
def test_parameters_buffers_and_their_flags(recording: Recording) -> None:
    model = Plain().train()
    model.first.weight.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    objects = {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()}
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    recording(model)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()} == objects
    assert {name: p.requires_grad for name, p in model.named_parameters()} == flags
    assert all(p.grad is None and p.device.type == "cpu" for p in model.parameters())


@however
def test_the_random_state(recording: Recording) -> None:
    model = Plain().train()
    torch.manual_seed(7)
    state = torch.get_rng_state()
    recording(model)
    # The recording's own inputs are drawn before it begins.
    torch.set_rng_state(state)
    torch.randn(2, 4) if recording is not badly else torch.randn(2, 5, 6, 7)
    expected = torch.get_rng_state()
    torch.set_rng_state(state)
    recording(model)
    assert torch.equal(torch.get_rng_state(), expected)


@however
def test_hooks_stay_and_none_are_added(recording: Recording) -> None:
    model = Plain()
    calls: list[str] = []
    handle = model.first.register_forward_hook(lambda *_: calls.append("first"))
    recording(model)
    for module in model.modules():
        assert len(module._forward_hooks) == (module is model.first)
        assert not module._forward_pre_hooks
    calls.clear()
    model.eval()(torch.randn(2, 4))
    assert calls == ["first"]
    handle.remove()
    assert not model.first._forward_hooks


@pytest.mark.parametrize("copied_bytes", [state._COPIED_BYTES, 0])
@pytest.mark.parametrize("recording", [well, by_hooks])
def test_what_forward_changes_is_put_back(
    recording: Recording, copied_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_COPIED_BYTES", copied_bytes)
    model = models.Changes()
    buffers = dict(model.named_buffers())
    recording(model)
    assert dict(model.named_buffers()).keys() == buffers.keys()
    for name, buffer in model.named_buffers():
        assert buffer is buffers[name] and torch.equal(buffer, torch.zeros_like(buffer)), name
    assert model.calls == 0 and model.last is None and not hasattr(model, "fresh")
    assert "forward" not in vars(model)


def test_a_large_buffer_is_copied_only_if_something_writes_to_it() -> None:
    read, written, viewed = torch.ones(3), torch.ones(3), torch.ones(2, 3)
    with state.CopyBeforeWrite([read, written, viewed]) as guard:
        _ = read + 1
        written.add_(read)
        written.mul_(2)
        viewed[0] = 7
    assert [before is tensor for (before, _), tensor in zip(guard.copies, (written, viewed))] == [True, True]
    assert all(torch.equal(copy, torch.ones_like(copy)) for _, copy in guard.copies)
    assert torch.equal(written, torch.full((3,), 4.0)), "the write itself is not held back"


def test_small_buffers_are_copied_up_to_a_limit_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_COPIED_BYTES", 100)
    sizes = [4, 400, 8, 12, 16]
    small, large = state.by_size([torch.zeros(size) for size in sizes])
    assert [len(buffer) for buffer in small] == [4, 8, 12]
    assert [len(buffer) for buffer in large] == [16, 400]


def test_a_model_that_changes_itself_is_recorded_from_the_state_that_it_came_in() -> None:
    x = torch.ones(2, 4)
    capture = record(models.Changes(), x)
    expected = models.Changes()(x.clone())
    torch.testing.assert_close(capture.golden["Changes"], expected)
    torch.testing.assert_close(capture.golden["Changes<0"], torch.ones(2, 4), rtol=0, atol=0)


def test_the_callers_inputs_are_not_written_to() -> None:
    x = torch.ones(2, 4)
    record(models.Changes(), x)
    assert torch.equal(x, torch.ones(2, 4))


def test_dropout_is_off_and_batch_statistics_are_not_touched() -> None:
    model = models.Pooled()
    x = torch.randn(4, 3, 8, 8)
    model.train()(x)
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    capture = record(model, x)
    assert model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, kept[name]), name
    with torch.no_grad():
        torch.testing.assert_close(capture.golden["Pooled"], model.eval()(x), rtol=0, atol=0)


def test_gradients_are_not_asked_for_inside_and_still_are_outside() -> None:
    model = nn.Linear(4, 3)
    record(model, torch.randn(2, 4))
    assert torch.is_grad_enabled()
    model(torch.randn(2, 4)).sum().backward()
    assert model.weight.grad is not None
