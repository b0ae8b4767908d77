"""Files of tensors are what safetensors itself would write, and are written one tensor at a time."""

import gc
import json
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from torchport.errors import CaptureError
from torchport.trace.safetensors_layout import DTYPES
from torchport.trace.writing import read_tensors, write_tensors

pytestmark = pytest.mark.slow


def of(dtype: str, *shape: int) -> torch.Tensor:
    """A tensor whose bytes count up."""
    kind = getattr(torch, dtype)
    count = kind.itemsize * torch.Size(shape).numel()
    values = torch.arange(count) % 2 if dtype == "bool" else torch.arange(count)
    return values.to(torch.uint8).view(kind).reshape(shape)


def header_and_values(path: Path) -> tuple[dict, bytes]:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert length % 8 == 0, "the values are aligned"
    return json.loads(content[8 : 8 + length]), content[8 + length :]


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        st.tuples(st.sampled_from(sorted(DTYPES.values())), st.lists(st.integers(0, 3), max_size=3)),
        min_size=1,
        max_size=8,
    )
)
def test_a_file_is_what_safetensors_itself_writes(
    tmp_path_factory: pytest.TempPathFactory, forms: dict
) -> None:
    forms.pop("__metadata__", None)
    tensors = {name: of(dtype, *shape) for name, (dtype, shape) in forms.items()}
    folder = tmp_path_factory.mktemp("files")
    write_tensors(folder / "ours", tensors, {"schema": "1", "root": "net"})
    save_file(tensors, folder / "theirs", metadata={"schema": "1", "root": "net"})
    ours, theirs = header_and_values(folder / "ours"), header_and_values(folder / "theirs")
    assert ours == theirs and list(ours[0]) == list(theirs[0])


AWKWARD = {
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "part of a larger one": torch.arange(100.0)[10:13],
    "repeated": torch.ones(1).expand(4),
    "a single number": torch.tensor(2.5),
    "nothing": torch.zeros(0, 3),
    "conjugated": torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "negated": torch.tensor([1 + 2j, 3 - 1j]).conj().imag,
    "a parameter": torch.nn.Parameter(torch.ones(2)),
}


def test_tensors_of_every_make_come_back_as_they_were(tmp_path: Path) -> None:
    shared = torch.arange(4.0)
    tensors = {**AWKWARD, "shared": shared, "shared too": shared, "shared in part": shared[1:]}
    write_tensors(tmp_path / "t.safetensors", tensors, {})
    for found in (load_file(tmp_path / "t.safetensors"), read_tensors(tmp_path / "t.safetensors")):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert torch.equal(found[name], tensor.detach().resolve_conj().resolve_neg()), name
            assert found[name].dtype == tensor.dtype


def test_a_file_without_tensors_can_be_read(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t.safetensors", {}, {"format": "pt"}, aliases={"a": "b"})
    with safe_open(tmp_path / "t.safetensors", framework="pt") as file:
        assert list(file.keys()) == []
        assert file.metadata() == {"format": "pt", "aliases": '{"a": "b"}'}


class Made(Mapping[str, torch.Tensor]):
    """Tensors that are made when they are asked for; counts those that somebody holds."""

    def __init__(self, count: int) -> None:
        self.made: list[weakref.ref] = []
        self.count, self.most = count, 0

    def __getitem__(self, name: str) -> torch.Tensor:
        tensor = torch.full((10,), float(name))
        self.made.append(weakref.ref(tensor))
        gc.collect()
        self.most = max(self.most, sum(one() is not None for one in self.made))
        return tensor

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.count))

    def __len__(self) -> int:
        return self.count


def test_no_more_than_one_tensor_is_held_at_a_time(tmp_path: Path) -> None:
    tensors = Made(5)
    write_tensors(tmp_path / "t.safetensors", tensors, {})
    assert tensors.most == 1
    assert {name: float(tensor[0]) for name, tensor in load_file(tmp_path / "t.safetensors").items()} == {
        str(number): float(number) for number in range(5)
    }


def test_a_dtype_that_files_cannot_hold_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="TP0205: wide is of dtype complex128"):
        write_tensors(
            tmp_path / "t", {"fine": torch.ones(1), "wide": torch.ones(1, dtype=torch.complex128)}, {}
        )
    assert list(tmp_path.iterdir()) == []


WRITE_WITH_LITTLE_ROOM = """
import resource, signal, sys, torch
from pathlib import Path
from torchport.errors import DiskError
from torchport.trace.writing import write_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_tensors(Path(sys.argv[1]), {"a": torch.ones(10), "b": torch.ones(10_000)}, {})
except DiskError as error:
    print(error)
"""


def test_a_full_disk_is_a_coded_error_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    command = [sys.executable, "-c", WRITE_WITH_LITTLE_ROOM, str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert answer.stdout.startswith(f"TP0330: cannot write {path}")
    assert list(tmp_path.iterdir()) == []
