"""Transforms of torchaudio and torch.stft in a captured model: written as calls of the audio crate, and proven."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
import torch
import torchaudio
from torch import Tensor, nn

import torchport
from torchport.capture.recorder import record
from torchport.targets.candle.build import find_cargo
from torchport.targets.candle.project import AUDIO, RUNTIME, write_project
from torchport.targets.candle.target import TARGET
from torchport.targets.candle.writer import Generated, generate


class Sound(nn.Module):
    """Every transform of torchaudio that stands before a model, and a spectrum that is changed and taken back."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"n_fft": 128, "hop_length": 40, "n_mels": 20}
        transforms = torchaudio.transforms
        self.resample = transforms.Resample(3, 2)
        self.slaney = transforms.MelSpectrogram(8000, **sizes, norm="slaney", mel_scale="slaney")
        self.windowed = transforms.Spectrogram(100, 80, 33, power=1.0, normalized=True, pad_mode="constant")
        self.decibels = transforms.AmplitudeToDB("power", 80.0)
        self.mfcc = transforms.MFCC(8000, 13, melkwargs=sizes)
        self.mask = nn.Conv1d(33, 33, 3, padding=1)
        self.register_buffer("window", torch.hann_window(48))

    def forward(self, sound: Tensor) -> tuple[Tensor, ...]:
        sound = self.resample(sound)
        options = {"normalized": True, "window": self.window}
        spectrum = torch.stft(sound, 64, 16, 48, return_complex=True, **options)
        filtered = spectrum * torch.sigmoid(self.mask(spectrum.abs()))
        back = torch.istft(filtered, 64, 16, 48, length=sound.shape[-1], **options)
        return self.decibels(self.slaney(sound)), self.windowed(sound), self.mfcc(sound), back


def written(model: nn.Module, *args: Tensor) -> Generated:
    return generate(record(model.eval(), *args, decompose=lambda op: not TARGET.supports(op)).graph)


@pytest.mark.slow
def test_a_transform_is_one_call_of_the_audio_crate() -> None:
    source = written(Sound(), torch.randn(2, 1500)).source
    assert "use torchport_audio as audio;" in source
    assert source.count("audio::stft(") == 3 and source.count("audio::istft(") == 1
    assert "fft_of_real" not in source


@pytest.mark.builds
def test_transforms_are_proven_at_every_layer_and_for_other_batches(tmp_path: Path) -> None:
    torch.manual_seed(0)
    port = torchport.port(Sound().eval(), (torch.randn(2, 1500),), out=tmp_path, dynamic="sound:0")
    assert port.artifact.todos == ()
    report = port.check()
    assert report.passed, report.first_divergence
    other = port.check((torch.randn(5, 1500),))
    assert other.passed, other.first_divergence


class Halved(nn.Module):
    def forward(self, sound: Tensor) -> Tensor:
        return torch.stft(sound, 64, return_complex=True).abs()


@pytest.mark.builds
def test_a_project_has_the_audio_crate_if_its_model_calls_it(tmp_path: Path) -> None:
    projects = {
        "sound": written(Halved(), torch.randn(2, 300)),
        "linear": written(nn.Linear(4, 3), torch.randn(2, 4)),
    }
    for name, generated in projects.items():
        folder = tmp_path / name
        write_project(folder, generated, name)
        command = [find_cargo(), "tree", "--quiet", "--locked", "--offline"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        manifest = tomllib.loads((folder / "Cargo.toml").read_text())
        crates = {RUNTIME, AUDIO} if name == "sound" else {RUNTIME}
        assert set(manifest["dependencies"]) & {RUNTIME, AUDIO} == crates
        assert set(manifest["profile"]["dev"]["package"]) - {"*"} == crates
        assert {path.name for path in folder.glob("torchport-*")} == crates
        assert not (folder / AUDIO / "examples").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"return_complex": False}, "return_complex=False"),
        ({"align_to_window": True, "center": False}, "align"),
    ],
)
def test_a_form_that_is_not_handled_becomes_a_todo(options: dict[str, bool], reason: str) -> None:
    class Other(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stft(x, 16, **{"return_complex": True, **options})

    todos = written(Other(), torch.randn(2, 100)).todos
    assert [todo.op for todo in todos] == ["aten.stft.default"] and reason in todos[0].reason
