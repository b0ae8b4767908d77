"""The mock backend's settings: options, then the environment, then defaults; what is wrong is refused by name."""

from __future__ import annotations

import pytest

from torchport.debug.settings import MockSettings, mock_settings
from torchport.errors import UsageError


def test_defaults_are_strict_with_alignment_1_and_16_gib_a_tensor() -> None:
    assert mock_settings(environment={}) == MockSettings(strict=True, alignment=1, max_memory=16 * 2**30)
    assert mock_settings(environment={"MOCK_STRICT": " ", "MOCK_ALIGNMENT": ""}) == MockSettings()


def test_the_environment_is_read_and_options_win_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, text in (("MOCK_STRICT", "0"), ("MOCK_ALIGNMENT", "16"), ("MOCK_MAX_MEMORY", "512MB")):
        monkeypatch.setenv(variable, text)
    assert mock_settings() == MockSettings(strict=False, alignment=16, max_memory=512_000_000)
    assert mock_settings(strict=True, alignment=2, max_memory=99) == MockSettings(True, 2, 99)
    assert mock_settings(alignment=2) == MockSettings(False, 2, 512_000_000)


@pytest.mark.parametrize(("text", "strict"), [("1", True), ("true", True), ("Off", False), ("no", False)])
def test_switches_are_read_in_the_usual_spellings(text: str, strict: bool) -> None:
    assert mock_settings(environment={"MOCK_STRICT": text}).strict is strict


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("MOCK_STRICT", "maybe"),
        ("MOCK_STRICT", "2"),
        ("MOCK_ALIGNMENT", "0"),
        ("MOCK_ALIGNMENT", "8.0"),
        ("MOCK_ALIGNMENT", "-8"),
        ("MOCK_MAX_MEMORY", "lots"),
        ("MOCK_MAX_MEMORY", "0"),
        ("MOCK_MAX_MEMORY", "-16GiB"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(variable: str, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        mock_settings(environment={variable: text})
    assert (
        refused.value.code == "TP1002" and variable in refused.value.message and text in refused.value.message
    )


def test_a_wrong_option_is_refused_by_its_name_even_if_the_variable_is_right() -> None:
    with pytest.raises(UsageError, match="TP1002: alignment: 'wide'"):
        mock_settings(alignment="wide", environment={"MOCK_ALIGNMENT": "8"})
