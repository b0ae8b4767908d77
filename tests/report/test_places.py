"""A file is named as the checkout names it: from its root, with forward slashes."""

from pathlib import Path

import pytest

from torchport.report.places import place_of, place_of_culprit

from .sample import passing
from .views import full


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo" / "sub")
    return tmp_path / "repo"


def test_a_file_below_the_current_directory_is_relative(root: Path) -> None:
    place = place_of(f"{root}/sub/net.py:12")
    assert place is not None and (place.file, place.line, place.is_users) == ("net.py", 12, True)
    assert str(place) == "net.py:12"


def test_a_file_elsewhere_is_absolute_and_not_the_users(root: Path) -> None:
    place = place_of(f"{root}/net.py:12")
    assert place is not None and (place.file, place.line) == (f"{root}/net.py", 12)
    assert not place.is_below_root and not place.is_users


def test_the_root_of_the_checkout_comes_before_the_current_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(root))
    for source in (f"{root}/sub/net.py:12", "net.py:12"):
        assert str(place_of(source)) == "sub/net.py:12"


def test_a_file_behind_a_link_is_found(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root / "sub")
    assert str(place_of(f"{tmp_path}/link/net.py:3")) == "net.py:3"


def test_an_installed_package_is_not_the_users_even_in_the_checkout(root: Path) -> None:
    place = place_of(f"{root}/sub/.venv/lib/site-packages/timm/layers.py:1")
    assert place is not None and place.is_below_root and not place.is_users


@pytest.mark.parametrize(
    ("source", "said"), [("net.py", "net.py"), ("a:b.py", "a:b.py"), ("a:b.py:3", "a:b.py:3")]
)
def test_a_source_may_lack_a_line_and_have_colons(root: Path, source: str, said: str) -> None:
    assert str(place_of(source)) == said


def test_nothing_known_is_no_place() -> None:
    assert place_of(None) is None and place_of("") is None and place_of_culprit(passing()) is None


def test_the_culprits_line_is_that_of_the_operation_if_it_is_the_users(root: Path) -> None:
    report = full()
    assert str(place_of_culprit(report)) == "lib/norms.py:12"
    assert report.first_divergence is not None and report.first_divergence.operation is not None
    elsewhere = report.first_divergence.operation.model_copy(update={"source": "/opt/torch/norms.py:12"})
    divergence = report.first_divergence.model_copy(update={"operation": elsewhere})
    assert str(place_of_culprit(report.model_copy(update={"first_divergence": divergence}))) == "net.py:4"
