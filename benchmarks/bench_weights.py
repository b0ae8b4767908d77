"""How much memory `torchport weights extract` takes beyond the largest tensor, and its speed beside `cp`.

    python -m benchmarks.bench_weights                 # 8 GB: some minutes, and 24 GB of disk
    python -m benchmarks.bench_weights --gigabytes 1

Writes a sharded safetensors checkpoint and a `.pt` of the same tensors, and extracts all but a few of each. Measures in
turns with `cp` of the same bytes on the same disk, both up to when the disk has them. Memory is the peak of the
resident set of a process that extracts, less what it had before. Exits with 1 if that is more than 300 MB
beyond the largest tensor, or the speed less than 60 % of that of `cp`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from torchport.capture.graph import Graph, Module, TensorMeta, Weight
from torchport.capture.manifest import write_manifest
from torchport.files import cache_directory

MEGABYTES, SHARE = 300.0, 0.6
SHAPE = (4096, 8192)
"""Of each tensor: 128 MiB of float32; the first is of twice as many rows."""
SHARDS = 4
EXTRACT = """
import os, sys, time
from pathlib import Path
from torchport.events import ignore
from torchport.porting.extracting import extract_weights

def peak(name):
    text = Path("/proc/self/status").read_text()
    return int(text.split(name + ":")[1].split()[0])

given = {"rules": None, "prefixes": (), "watch": ignore}
checkpoint, manifest, out = map(Path, sys.argv[1:])
extract_weights([checkpoint], manifest, out=None, **given)
before = peak("VmRSS")
began = time.perf_counter()
done = extract_weights([checkpoint], manifest, out=out, **given)
os.sync()
print(time.perf_counter() - began, (peak("VmHWM") - before) * 1.024e-3, done["bytes"])
"""


def tensors(size: int) -> dict[str, tuple[int, int]]:
    """The names and shapes of tensors of so many bytes in all."""
    one = SHAPE[0] * SHAPE[1] * 4
    count = max(2, size // one - 1)
    return {"embed.weight": (2 * SHAPE[0], SHAPE[1]), **{f"layers.{n}.weight": SHAPE for n in range(count)}}


def write_shards(folder: Path, shapes: dict[str, tuple[int, int]], values: torch.Tensor) -> Path:
    """Writes shards one after the other, each tensor from the same random numbers."""
    folder.mkdir()
    names, index = list(shapes), {}
    for number in range(SHARDS):
        own = names[number::SHARDS]
        file = folder / f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        header, start = {}, 0
        for name in own:
            end = start + 4 * shapes[name][0] * shapes[name][1]
            header[name] = {"dtype": "F32", "shape": list(shapes[name]), "data_offsets": [start, end]}
            start, index[name] = end, file.name
        text = json.dumps(header).encode()
        with file.open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for name in own:
                out.write(values[: shapes[name][0]].numpy().data)
    place = folder / "model.safetensors.index.json"
    place.write_text(json.dumps({"weight_map": index}))
    return place


def write_pt(path: Path, shapes: dict[str, tuple[int, int]], values: torch.Tensor) -> Path:
    """Writes a checkpoint with torch.save, in which every tensor has a storage of its own."""
    own = values.numpy()
    state = {
        name: torch.from_numpy(np.ndarray(shape, np.float32, own.data)) for name, shape in shapes.items()
    }
    torch.save({"state_dict": state, "epoch": 3}, path)
    return path


def write_wanted(path: Path, shapes: dict[str, tuple[int, int]]) -> None:
    """A manifest that needs all tensors but the last."""
    weights = {
        name: Weight(TensorMeta(shape, "float32"), "parameter") for name, shape in list(shapes.items())[:-1]
    }
    module = Module("", "bench.Net", (), (), (), params={f"p{n}": name for n, name in enumerate(weights)})
    graph = Graph("bench", {"": module}, weights, (), ())
    write_manifest(path, graph, extra={"torch": torch.__version__, "values": False})


def drop_caches() -> None:
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        print("the page cache cannot be dropped here: what is read may be in memory", flush=True)


def settled() -> None:
    """Nothing is left to be written, and nothing of the checkpoint is in memory."""
    os.sync()
    drop_caches()


def copied(files: list[Path], to: Path) -> float:
    """The seconds that it takes to copy files, up to when the disk has them."""
    settled()
    began = time.perf_counter()
    subprocess.run(["cp", *map(str, files), str(to)], check=True)
    os.sync()
    return time.perf_counter() - began


def extracted(checkpoint: Path, manifest: Path, out: Path) -> tuple[float, float, float]:
    """The seconds of an extraction, up to when the disk has it; the megabytes that it took; the bytes that it wrote."""
    settled()
    command = [sys.executable, "-c", EXTRACT, str(checkpoint), str(manifest), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, megabytes, nbytes = map(float, done.stdout.split())
    return seconds, megabytes, nbytes


def measure(
    label: str, checkpoint: Path, files: list[Path], manifest: Path, scratch: Path, runs: int
) -> bool:
    """Whether extraction keeps its limits; the fastest of several runs of each counts, and the most memory."""
    size = sum(file.stat().st_size for file in files)
    to, out = scratch / "copies", scratch / "out.safetensors"
    copies, extractions = [], []
    for _ in range(runs):
        to.mkdir()
        copies.append(copied(files, to))
        shutil.rmtree(to)
        extractions.append(extracted(checkpoint, manifest, out))
        out.unlink()
    copy, seconds, nbytes = min(copies), min(one[0] for one in extractions), extractions[0][2]
    megabytes = max(one[1] for one in extractions)
    largest = 2 * SHAPE[0] * SHAPE[1] * 4 / 1e6
    share = (nbytes / seconds) / (size / copy)
    print(
        f"{label:<8} {nbytes / 1e9:.1f} GB in {seconds:.1f} s, cp {size / 1e9:.1f} GB in {copy:.1f} s: {share:.0%} of "
        f"its speed (limit {SHARE:.0%}); {megabytes:.0f} MB (limit {largest + MEGABYTES:.0f} MB)",
        flush=True,
    )
    return share >= SHARE and megabytes <= largest + MEGABYTES


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=8.0, help="the size of each checkpoint")
    parser.add_argument("--runs", type=int, default=3, help="how often each is measured; the fastest counts")
    parser.add_argument("--dir", type=Path, help="where the files are written, and deleted again")
    given = parser.parse_args()
    place = given.dir or cache_directory()
    place.mkdir(parents=True, exist_ok=True)
    shapes = tensors(int(given.gigabytes * 1e9))
    values = torch.randn(2 * SHAPE[0], SHAPE[1])
    kept = True
    with tempfile.TemporaryDirectory(prefix="bench-weights-", dir=place) as folder:
        scratch = Path(folder)
        write_wanted(scratch / "bench_manifest.json", shapes)
        for label in ("sharded", "pt"):
            if label == "sharded":
                checkpoint = write_shards(scratch / "shards", shapes, values)
                files = sorted(checkpoint.parent.glob("*.safetensors"))
            else:
                checkpoint = write_pt(scratch / "checkpoint.pt", shapes, values)
                files = [checkpoint]
            kept = (
                measure(label, checkpoint, files, scratch / "bench_manifest.json", scratch, given.runs)
                and kept
            )
            for file in files:
                file.unlink()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
