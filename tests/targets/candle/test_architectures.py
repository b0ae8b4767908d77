"""What blocked whole families of architectures, proven at lengths that were not recorded.

Mixtures of experts, with tokens that reach every expert and tokens that leave most without any; models that mix
tokens by Fourier transforms or go to a spectrogram and back.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor, nn

import torchport
from torchport.porting.port import Port

pytestmark = pytest.mark.builds
_TEXT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "use_cache": False,
}
_EXPERTS = {**_TEXT, "num_key_value_heads": 2, "intermediate_size": 48, "num_experts_per_tok": 2}


class Mixtures(nn.Module):
    """Mixtures of experts as transformers has them: plain, with an expert that all share, and normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.mixtral = transformers.MixtralModel(transformers.MixtralConfig(**_EXPERTS, num_local_experts=4))
        few = {**_EXPERTS, "num_experts": 6, "moe_intermediate_size": 16}
        self.qwen2 = transformers.Qwen2MoeModel(
            transformers.Qwen2MoeConfig(**few, shared_expert_intermediate_size=24)
        )
        self.qwen3 = transformers.Qwen3MoeModel(transformers.Qwen3MoeConfig(**few, head_dim=8))

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        return tuple(part(ids).last_hidden_state for part in (self.mixtral, self.qwen2, self.qwen3))


def _reached(model: Mixtures, ids: Tensor) -> list[int]:
    """How many experts of each layer have a token."""
    reached: list[int] = []

    def note(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        reached.append(len(given[1].unique()))

    hooks = [
        m.register_forward_pre_hook(note) for m in model.modules() if type(m).__name__.endswith("Experts")
    ]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return reached


def _ids(*shape: int) -> Tensor:
    return torch.randint(0, 64, shape, generator=torch.Generator().manual_seed(sum(shape)))


def _passes(port: Port, *inputs: Tensor) -> None:
    report = port.check(inputs)
    assert report.passed, (tuple(inputs[0].shape), report.first_divergence)


def test_mixtures_of_experts_are_proven_whichever_experts_are_reached(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Mixtures().eval()
    port = torchport.port(model, (_ids(2, 9),), out=tmp_path)
    assert port.artifact.todos == ()
    assert port.check().passed
    few, many = _ids(1, 1), _ids(3, 30)
    assert _reached(model, few) == [2, 2, 2]
    assert _reached(model, many) == [4, 6, 6]
    _passes(port, few)
    _passes(port, many)


class Spectral(nn.Module):
    """Tokens mixed by Fourier transforms, and a signal that is filtered in its spectrogram."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.FNetConfig(
            vocab_size=64,
            hidden_size=24,
            num_hidden_layers=2,
            intermediate_size=32,
            max_position_embeddings=64,
        )
        self.fnet = transformers.FNetModel(config)
        self.mask = nn.Conv1d(17, 17, 3, padding=1)
        self.register_buffer("window", torch.hann_window(32))

    def forward(self, ids: Tensor, signal: Tensor) -> tuple[Tensor, ...]:
        tokens = self.fnet(ids).last_hidden_state
        spectrum = torch.stft(signal, 32, 8, window=self.window, return_complex=True)
        filtered = spectrum * torch.sigmoid(self.mask(spectrum.abs()))
        return tokens, torch.istft(filtered, 32, 8, window=self.window, length=signal.shape[-1])


def test_model_with_fourier_transforms_is_proven_at_other_lengths(tmp_path: Path) -> None:
    torch.manual_seed(0)
    dynamic = "ids:0,ids:1,signal:0"
    port = torchport.port(Spectral().eval(), (_ids(3, 9), torch.randn(3, 200)), out=tmp_path, dynamic=dynamic)
    assert port.artifact.todos == ()
    assert port.check().passed
    for batch, length in ((2, 7), (1, 16), (5, 31)):
        _passes(port, _ids(batch, length), torch.randn(batch, 200))


@pytest.mark.zoo
def test_state_space_model_pads_its_chunks_at_any_length(tmp_path: Path) -> None:
    """Chunks of 8: what was recorded is padded by 3, the others by 0, 7 and 1."""
    torch.manual_seed(0)
    config = transformers.Mamba2Config(
        vocab_size=64,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=1,
        num_heads=8,
        head_dim=8,
        n_groups=2,
        chunk_size=8,
        expand=2,
        use_cache=False,
    )
    model = transformers.Mamba2Model(config).eval()
    port = torchport.port(model, (_ids(2, 13),), out=tmp_path, dynamic="input_ids:0,input_ids:1")
    assert port.artifact.todos == ()
    assert port.check().passed
    for batch, length in ((3, 16), (1, 9), (2, 23)):
        _passes(port, _ids(batch, length))
