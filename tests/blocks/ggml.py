"""ggml itself, from the wheel of pywhispercpp: what our blocks are held against, bit for bit."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.metadata import files
from typing import Any

import numpy as np
import pytest

from torchport.blocks.gguf import TYPES

_F32 = ctypes.POINTER(ctypes.c_float)


@cache
def _library() -> Any:
    try:
        found = files("pywhispercpp") or []
    except ImportError:
        found = []
    paths = [file.locate() for file in found if file.name.startswith("libggml-base")]
    if not paths:
        pytest.skip("pywhispercpp, which has ggml in it, is not installed")
    library = ctypes.CDLL(str(paths[0]))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, _F32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, _F32,
    ]  # fmt: skip
    return library


def quantise(rows: np.ndarray, form: str, importance: np.ndarray | None = None) -> np.ndarray:
    """The blocks that ggml makes."""
    rows = np.ascontiguousarray(rows, np.float32)
    type_ = TYPES[form]
    made = np.zeros((len(rows), rows.shape[1] // type_.elements * type_.nbytes), np.uint8)
    weights = None if importance is None else np.ascontiguousarray(importance, np.float32)
    written = _library().ggml_quantize_chunk(
        type_.number,
        rows.ctypes.data_as(_F32),
        made.ctypes.data_as(ctypes.c_void_p),
        0,
        len(rows),
        rows.shape[1],
        None if weights is None else weights.ctypes.data_as(_F32),
    )
    assert written == made.nbytes
    return made


def dequantise(blocks: np.ndarray, form: str, width: int) -> np.ndarray:
    """The weights that ggml reads from blocks."""
    name = f"dequantize_row_{form.replace('_k', '_K')}"
    function = getattr(_library(), name)
    function.restype = None
    function.argtypes = [ctypes.c_void_p, _F32, ctypes.c_int64]
    blocks = np.ascontiguousarray(blocks)
    rows = np.empty((len(blocks), width), np.float32)
    function(blocks.ctypes.data_as(ctypes.c_void_p), rows.ctypes.data_as(_F32), rows.size)
    return rows
