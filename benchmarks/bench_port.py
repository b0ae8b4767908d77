"""How long a port takes once candle is built, and what a 7B model on `meta` costs: `make bench`.

Prints what each step took, and exits 1 when a promise does not hold: an unchanged model's Rust is rebuilt in under
5 s of CPU, a second port of resnet18 takes under 30 s, a Llama of 7B shape becomes Rust in under 60 s and 2 GB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LLAMA_7B = r"""
import re, sys, time, torch, transformers, torchport
start = time.perf_counter()
with torch.device("meta"):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(use_cache=False))
    ids = torch.zeros(1, 16, dtype=torch.int64)
torchport.port(model, (ids,), out=sys.argv[1], name="llama_7b")
peak = re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())
print(time.perf_counter() - start, int(peak.group(1)) / 2**20)
"""


def port_resnet18(out: Path) -> tuple[float, dict[str, float]]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "torchport", "port", "benchmarks.zoo:resnet18", "--to", "candle"]
    done = subprocess.run([*command, "--out", str(out), "--json"], stdout=subprocess.PIPE, check=True)
    report = json.loads(done.stdout)
    assert report["status"] == "pass"
    return time.perf_counter() - start, report["seconds"]


def rebuild_cpu(out: Path) -> float:
    """CPU seconds of building the port in `out` again, unchanged but for its time stamp."""
    from torchport import Port

    (out / "rust" / "src" / "model.rs").touch()
    port = Port.open(out)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    port.artifact.prepare(lambda _: None)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "resnet18"
        first, _ = port_resnet18(out)
        second, seconds = port_resnet18(out)
        rebuilt = rebuild_cpu(out)
        command = [sys.executable, "-c", LLAMA_7B, scratch + "/llama"]
        meta = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        meta_seconds, meta_gib = map(float, meta.stdout.split())
    print(f"resnet18, first port    {first:6.1f} s")
    print(f"resnet18, second port   {second:6.1f} s (limit 30)  {seconds}")
    print(f"resnet18, rebuilt       {rebuilt:6.1f} s CPU (limit 5)")
    print(f"Llama 7B on meta        {meta_seconds:6.1f} s (limit 60), {meta_gib:.2f} GiB (limit 1.86)")
    return 0 if second < 30 and rebuilt < 5 and meta_seconds < 60 and meta_gib < 1.86 else 1


if __name__ == "__main__":
    sys.exit(main())
