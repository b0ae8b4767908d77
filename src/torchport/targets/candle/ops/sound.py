"""Short-time Fourier transforms, which are functions of the audio crate."""

from __future__ import annotations

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call, optional
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.registry import op


def _framing(e: Emitter, a: Args) -> list[Code]:
    """The window and the sizes of a frame."""
    n_fft = a["n_fft"]
    hop = n_fft // 4 if a["hop_length"] is None else a["hop_length"]
    length = n_fft if a["win_length"] is None else a["win_length"]
    sizes = [e.slot(n_fft, "n_fft"), e.slot(hop, "hop_length"), e.slot(length, "win_length")]
    return [e.optional_ref(a["window"]), *sizes]


def _is_onesided(a: Args, default: bool) -> bool:
    return default if a["onesided"] is None else bool(a["onesided"])


@op("aten.stft.default")
def stft(e: Emitter, a: Args) -> Code:
    """Of a signal that is padded already."""
    if a["align_to_window"]:
        raise Unsupported("align_to_window=True")
    if not a["return_complex"]:
        raise Unsupported("return_complex=False")
    if a["self"] in e.complex or (a["window"] is not None and a["window"] in e.complex):
        raise Unsupported("a complex signal or window")
    return call(
        "audio::stft", e.ref(a["self"]), *_framing(e, a), bool(a["normalized"]), _is_onesided(a, True)
    )


@op("aten.istft.default")
def istft(e: Emitter, a: Args) -> Code:
    if a["return_complex"]:
        raise Unsupported("return_complex=True")
    if a["window"] is not None and a["window"] in e.complex:
        raise Unsupported("a complex window")
    bins = e.meta(a["self"]).shape[-3]
    onesided = _is_onesided(a, bins != a["n_fft"])
    length = optional(None if a["length"] is None else e.size(a["length"], "length"))
    flags = [bool(a["center"]), bool(a["normalized"]), onesided]
    return call("audio::istft", e.ref(a["self"]), *_framing(e, a), *flags, length)
