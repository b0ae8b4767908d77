"""Models of pictures: torchvision, timm and transformers."""

from __future__ import annotations

import torch

from .entries import Subject, entry, in_zoo
from .language import hugging_face


def _torchvision(name: str, *, proven: bool = False, size: int = 224) -> None:
    def build() -> Subject:
        import torchvision

        model = getattr(torchvision.models, name)(weights=None)
        return model, (torch.randn(1, 3, size, size),)

    entry(build, name, proven=proven)


def _timm(name: str, *, proven: bool = False, size: int = 224) -> None:
    def build() -> Subject:
        import timm

        return timm.create_model(name, pretrained=False), (torch.randn(1, 3, size, size),)

    entry(build, name, proven=proven)


for _name in ("resnet18", "mobilenet_v3_small", "vit_b_16", "convnext_tiny", "swin_t"):
    _torchvision(_name, proven=True)
for _name in [
    "efficientnet_b0",
    "swin_v2_t",
    "densenet121",
    "googlenet",
    "shufflenet_v2_x1_0",
    "squeezenet1_0",
    "regnet_y_400mf",
    "maxvit_t",
    "mnasnet0_5",
    "vgg11",
    "alexnet",
]:
    _torchvision(_name)
_timm("mixer_s32_224", proven=True)
_timm("mobilevit_xxs", proven=True, size=256)
for _name in [
    "mobilenetv4_conv_small",
    "vit_tiny_patch16_224",
    "convnextv2_atto",
    "levit_128s",
    "xcit_nano_12_p16_224",
    "repvgg_a0",
    "eva02_tiny_patch14_224",
    "poolformerv2_s12",
    "ghostnetv2_100",
    "hiera_tiny_224",
]:
    _timm(_name)


@entry
def vit() -> Subject:
    return hugging_face("ViTModel", image_size=32, patch_size=8), (torch.randn(1, 3, 32, 32),)


@in_zoo
def dinov2() -> Subject:
    return hugging_face("Dinov2Model", image_size=28, patch_size=7), (torch.randn(1, 3, 28, 28),)


@in_zoo
def segformer() -> Subject:
    import transformers

    sizes = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4]}
    return transformers.SegformerModel(transformers.SegformerConfig(**sizes)), (torch.randn(1, 3, 64, 64),)


@in_zoo
def inception_v3() -> Subject:
    import torchvision

    model = torchvision.models.inception_v3(weights=None, init_weights=False)
    return model, (torch.randn(1, 3, 299, 299),)


def _segmentation(name: str) -> None:
    def build() -> Subject:
        import torchvision

        model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)
        return model, (torch.randn(1, 3, 128, 128),)

    entry(build, name, proven=False)


for _name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
    _segmentation(_name)
