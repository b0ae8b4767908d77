"""Models of sound: of transformers, a generator of waves, and a codec."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from .entries import OTHER_SIZES, SMALL, Subject, entry, ids, in_zoo


@entry
def whisper() -> Subject:
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=99,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=50,
        max_target_positions=32,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    return model, (torch.randn(1, 80, 100),), {"decoder_input_ids": ids()}


@in_zoo
def whisper_encoder() -> Subject:
    import transformers

    sizes = {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128}
    config = transformers.WhisperConfig(vocab_size=99, max_source_positions=50, **sizes)
    model = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    return model, (torch.randn(2, 80, 100),)


OTHER_SIZES["whisper_encoder"] = "input_features:0", lambda: (torch.randn(3, 80, 100),)
"""Its length is fixed: transformers refuses any other."""


@in_zoo
def wav2vec2() -> Subject:
    import transformers

    sizes = {"conv_dim": (32, 32, 32), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2)}
    config = transformers.Wav2Vec2Config(**SMALL, **sizes, num_feat_extract_layers=3, num_conv_pos_embeddings=16,
                                         num_conv_pos_embedding_groups=4, apply_spec_augment=False)  # fmt: skip
    return transformers.Wav2Vec2Model(config), (torch.randn(2, 800),)


OTHER_SIZES["wav2vec2"] = "input_values:0,input_values:1", lambda: (torch.randn(3, 1130),)


class Snake(nn.Module):
    """x + sin²(αx) / α, with a frequency for each channel."""

    def __init__(self, channels: int):
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(1, channels, 1) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sin(self.alpha * x) ** 2 / (self.alpha + 1e-9)


class Residual(nn.Module):
    """A dilated convolution and one that mixes, around which the input goes as it is."""

    def __init__(self, channels: int, dilation: int):
        super().__init__()
        self.act1, self.act2 = Snake(channels), Snake(channels)
        self.conv1 = weight_norm(nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation))
        self.conv2 = weight_norm(nn.Conv1d(channels, channels, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv2(self.act2(self.conv1(self.act1(x))))


class Generator(nn.Module):
    """From mel bands to a wave, in the manner of BigVGAN."""

    def __init__(self, bands: int = 20, channels: int = 32, rates: tuple[int, ...] = (4, 2)):
        super().__init__()
        self.first = weight_norm(nn.Conv1d(bands, channels, 7, padding=3))
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate in rates:
            up = nn.ConvTranspose1d(channels, channels // 2, 2 * rate, rate, padding=rate // 2)
            channels //= 2
            self.ups.append(weight_norm(up))
            self.blocks.append(nn.Sequential(*(Residual(channels, dilation) for dilation in (1, 3, 5))))
        self.act, self.last = Snake(channels), weight_norm(nn.Conv1d(channels, 1, 7, padding=3))

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = self.first(mel)
        for up, block in zip(self.ups, self.blocks, strict=True):
            x = block(up(x))
        return torch.tanh(self.last(self.act(x)))


@in_zoo
def bigvgan() -> Subject:
    return Generator(), (torch.randn(2, 20, 12),)


OTHER_SIZES["bigvgan"] = "mel:0,mel:2", lambda: (torch.randn(1, 20, 31),)


class CausalConv1d(nn.Conv1d):
    """A convolution that sees no sample of the future."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        past = (self.kernel_size[0] - 1) * self.dilation[0] + 1 - self.stride[0]
        return super().forward(F.pad(x, (past, 0)))


class Codec(nn.Module):
    """Samples to frames and back, by causal convolutions and an LSTM, in the manner of Encodec."""

    def __init__(self, width: int = 16, strides: tuple[int, ...] = (2, 4)):
        super().__init__()
        self.first, self.down, self.up = CausalConv1d(1, width, 7), nn.ModuleList(), nn.ModuleList()
        for stride in strides:
            self.down.append(nn.Sequential(nn.ELU(), CausalConv1d(width, 2 * width, 2 * stride, stride)))
            width *= 2
        self.lstm = nn.LSTM(width, width, num_layers=2)
        for stride in reversed(strides):
            self.up.append(nn.Sequential(nn.ELU(), nn.ConvTranspose1d(width, width // 2, 2 * stride, stride)))
            width //= 2
        self.last = CausalConv1d(width, 1, 7)

    def forward(self, wave: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(wave)
        for down in self.down:
            x = down(x)
        frames = x + self.lstm(x.permute(2, 0, 1))[0].permute(1, 2, 0)
        x = frames
        for up in self.up:
            x = up(x)
            x = x[..., : x.shape[-1] - up[1].stride[0]]
        return self.last(x), frames


@in_zoo
def codec() -> Subject:
    return Codec(), (torch.randn(2, 1, 64),)
