"""Folders of runs: each its own, known by its index, and nothing else is ever deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchport.debug.folders import delete, new_tree, newest_run, read_folder, run_at, runs_in
from torchport.debug.listing import listed
from torchport.debug.tree import FOLDERS, INDEX, ArtifactTree
from torchport.errors import DiskError, ReportError

from .sample import passing, written


def test_every_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    names = [new_tree(tmp_path, "a model/../x").path.name for _ in range(3)]
    assert names == ["a-model-..-x-001", "a-model-..-x-002", "a-model-..-x-003"]
    assert [one.path.name for one in runs_in(tmp_path)] == names


def test_the_index_lists_what_was_written_once(tmp_path: Path) -> None:
    tree = new_tree(tmp_path, "net")
    for text in ("one", "two"):
        tree.write("statistics", "graph_0.json", text, "statistics", "graph_0")
    index = json.loads((tree.path / INDEX).read_text())
    assert [one["path"] for one in index["artifacts"]] == ["statistics/graph_0.json"]
    assert (tree.path / "statistics" / "graph_0.json").read_text() == "two"


def test_a_folder_that_is_none_of_the_tree_is_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="elsewhere"):
        new_tree(tmp_path, "net").write("elsewhere", "x", "", "")


def test_a_disk_that_refuses_is_noted_and_the_run_goes_on(tmp_path: Path) -> None:
    tree = new_tree(tmp_path, "net")
    (tree.path / FOLDERS[0]).write_text("a file in the place of the folder")
    assert tree.write(FOLDERS[0], "graph_0.py", "text", "graph") is None
    assert len(tree.problems) == 1 and "graph_0.py" in tree.problems[0]
    assert tree.write(FOLDERS[1], "graph_0.py", "text", "graph") is not None
    assert json.loads((tree.path / INDEX).read_text())["problems"] == tree.problems


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("")
    with pytest.raises(DiskError, match="Not a directory"):
        new_tree(tmp_path / "root", "net")


def test_a_tree_whose_folder_is_gone_notes_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tree = ArtifactTree(tmp_path / "file" / "run", "net")
    tree.write("reports", "x.json", "{}", "report")
    assert tree.problems


@pytest.mark.parametrize("content", [None, "{", "[]", '{"kind": "other"}', "\x00"])
def test_what_is_no_run_is_never_taken_for_one(tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    if content is not None:
        (folder / INDEX).write_text(content)
    assert read_folder(folder) is None and runs_in(tmp_path) == []
    with pytest.raises(ReportError, match="no debugging run"):
        run_at(folder)


def test_deleting_leaves_the_neighbours(tmp_path: Path) -> None:
    first, second = written(tmp_path), written(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    delete(run_at(first))
    assert not first.exists() and second.exists() and (tmp_path / "notes.txt").exists()


def test_what_a_link_points_to_is_not_deleted(tmp_path: Path) -> None:
    run = written(tmp_path / "runs")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    (run / "link").symlink_to(precious)
    (tmp_path / "runs" / "linked-run").symlink_to(run)
    assert len(runs_in(tmp_path / "runs")) == 1
    delete(run_at(run))
    assert (precious / "file").read_text() == "mine"


def test_the_newest_run_of_a_folder_is_taken(tmp_path: Path) -> None:
    written(tmp_path)
    last = written(tmp_path)
    assert newest_run(tmp_path).path == last and newest_run(last).path == last


def test_the_list_says_what_came_of_each_and_which_did_not_end(tmp_path: Path) -> None:
    written(tmp_path), written(tmp_path, passing())
    new_tree(tmp_path, "cut off")
    lines = listed(tmp_path)
    assert sorted(one.status for one in lines) == ["fail", "pass", "unfinished"]
    assert "aten.gelu.default in act is wrong" in next(one for one in lines if one.status == "fail").headline
