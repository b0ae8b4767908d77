"""A configuration is read with care: what is not known is refused, with the setting that was meant."""

from pathlib import Path

import pytest

from torchport.errors import SpecError, UsageError
from torchport.targets.marble.config import Config, read_config, with_flags

WHOLE = """
name: reader
output: reader.marble
positional_encoding: {kind: learned, layer: tokens, max_length: 64, seed: 3}
tolerance: {cpu: 1e-5, gpu: 1.0e-4}
validate: true
summary: {json: s.json, csv: s.csv, plot: s.svg}
journal: true
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def test_every_setting_is_read(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, WHOLE))
    assert (config.name, config.output, config.is_validated, config.journal) == (
        "reader",
        "reader.marble",
        True,
        True,
    )
    assert config.positional_encoding is not None
    assert config.positional_encoding.model_dump() == {
        "kind": "learned",
        "layer": "tokens",
        "max_length": 64,
        "seed": 3,
    }
    assert (config.tolerance.for_device("cpu"), config.tolerance.for_device("cuda")) == (1e-5, 1e-4)
    assert (config.summary.as_json, config.summary.as_csv, config.summary.plot) == (
        "s.json",
        "s.csv",
        "s.svg",
    )


def test_no_file_and_an_empty_file_are_all_defaults(tmp_path: Path) -> None:
    assert read_config(None) == read_config(written(tmp_path, "")) == Config()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sumary: {}", "there is no setting sumary; did you mean summary?"),
        (
            "tolerance: {cpus: 1}",
            "there is no setting tolerance.cpus; did you mean cpu?",
        ),
        ("zzz: 1", "known here are name, output"),
        ("validate: 7", "validate is 7, and it must be a valid boolean"),
        ("tolerance: {cpu: tight}", "tolerance.cpu is 'tight', and it must be a valid number"),
        ("tolerance: {cpu: -1}", "tolerance.cpu is -1"),
        ("tolerance: {gpu: .nan}", "tolerance.gpu is nan"),
        ("tolerance: {gpu: .inf}", "tolerance.gpu is inf"),
        ("positional_encoding: {kind: rotary}", "positional_encoding.kind is 'rotary', and it is one of"),
        ("positional_encoding: {}", "positional_encoding.kind is missing"),
        ("positional_encoding: {kind: learned, max_length: 0}", "positional_encoding.max_length is 0"),
        ("[1, 2]", "not a mapping"),
        ("name: a\nname: b", "name is given twice"),
        ("name: [", "cannot be read"),
        ("name: !!python/object/apply:os.system ['true']", "cannot be read"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SpecError) as raised:
        read_config(path)
    assert raised.value.code == "TP0108"
    assert sentence in raised.value.message
    assert raised.value.where == str(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        read_config(tmp_path / "none.yaml")
    assert raised.value.code == "TP0108"


def test_flags_count_more_than_the_file(tmp_path: Path) -> None:
    config = with_flags(
        read_config(written(tmp_path, WHOLE)),
        output=Path("other.marble"),
        encoding="sinusoidal",
        tolerance=0.5,
        as_csv=Path("t.csv"),
    )
    assert config.output == "other.marble"
    assert config.positional_encoding is not None and config.positional_encoding.kind == "sinusoidal"
    assert config.positional_encoding.layer == "tokens"
    assert (config.tolerance.cpu, config.tolerance.gpu) == (0.5, 0.5)
    assert (config.summary.as_csv, config.summary.plot) == ("t.csv", "s.svg")
    assert config.is_validated and config.journal


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_bad_tolerance_on_the_command_line_is_refused(bad: float) -> None:
    with pytest.raises(UsageError) as raised:
        with_flags(Config(), tolerance=bad)
    assert raised.value.code == "TP0801"
