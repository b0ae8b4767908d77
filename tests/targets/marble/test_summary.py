"""A summary counts what is there, without making it, and gives the same numbers in every form."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from torchport import marble
from torchport.errors import UsageError
from torchport.report.neurons import render_summary
from torchport.report.terminal import plain
from torchport.targets.marble.summary import INPUTS
from torchport.targets.marble.summary_plot import write_plot


@pytest.fixture(scope="module")
def core() -> marble.Core:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    return marble.convert_model(model, torch.randn(2, 8))


def test_neurons_and_synapses_are_those_of_the_layers(core: marble.Core) -> None:
    found = marble.summary(core)
    first = 2 * 16 * (8 + 1)  # a synapse for each weight and one from the bias, for each of two rows
    last = 2 * 4 * (16 + 1)
    assert {name: (one.neurons, one.synapses) for name, one in found.layers.items()} == {
        INPUTS: (16, 0),
        "0": (32, first),
        "1": (32, 32),
        "2": (8, last),
    }
    assert (found.neurons, found.synapses) == (88, first + 32 + last)
    assert (found.neurons, found.synapses) == (len(core.neurons), len(core.synapses))


def test_kinds_and_parts_add_up_to_the_whole(core: marble.Core) -> None:
    found = marble.summary(core)
    assert set(found.kinds) == {"input", "weighted sum", "function"}
    for shares in (found.kinds.values(), found.layers.values(), found.parts):
        assert sum(one.neurons for one in shares) == found.neurons
        assert sum(one.synapses for one in shares) == found.synapses


def test_weights_are_counted_once_and_in_bytes(core: marble.Core) -> None:
    found = marble.summary(core)
    assert found.weights_stored == 8 * 16 + 16 + 16 * 4 + 4
    assert found.bytes_in_memory == 4 * found.weights_stored


def test_a_convolution_shares_weights_and_counts_every_synapse() -> None:
    core = marble.convert_model(nn.Conv2d(3, 4, 3, bias=False).eval(), torch.randn(1, 3, 8, 8))
    found = marble.summary(core)
    assert found.weights_stored == 4 * 3 * 9
    assert found.synapses == 4 * 6 * 6 * 3 * 9


def test_json_and_csv_have_the_numbers_of_the_summary(core: marble.Core) -> None:
    found = marble.summary(core)
    data = json.loads(found.to_json())
    assert data["neurons"] == found.neurons
    assert data["layers"]["0"]["synapses"] == found.layers["0"].synapses
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert sum(int(row["synapses"]) for row in rows) == found.synapses
    assert {row["layer"] for row in rows} == set(found.layers)


def test_the_table_shows_totals_layers_and_kinds(core: marble.Core) -> None:
    found = marble.summary(core)
    text = plain(lambda console: render_summary(found, console))
    assert f"88 neurons, {found.synapses:,} synapses" in text
    assert "weighted sum" in text and INPUTS in text


@pytest.mark.parametrize(("name", "start"), [("plot.svg", b"<svg"), ("plot.png", b"\x89PNG")])
def test_a_plot_is_drawn_to_a_file(core: marble.Core, tmp_path: Path, name: str, start: bytes) -> None:
    write_plot(marble.summary(core), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_plot_in_another_format_is_refused(core: marble.Core, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        write_plot(marble.summary(core), tmp_path / "plot.gif")
    assert (raised.value.code, list(tmp_path.iterdir())) == ("TP0801", [])


def test_a_plot_without_the_package_says_what_to_install(
    core: marble.Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError) as raised:
        write_plot(marble.summary(core), tmp_path / "plot.svg")
    assert raised.value.code == "TP0803"
    assert "torchport[html]" in (raised.value.fix or "")
