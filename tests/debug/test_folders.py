"""Folders of runs: each its own, known by its index, and nothing else is ever deleted."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torchport.cli import main
from torchport.debug.folders import (
    REPORT,
    RUNNING,
    delete,
    in_progress,
    is_in_progress,
    new_tree,
    newest_run,
    read_folder,
    run_at,
    runs_in,
)
from torchport.debug.generate import ReportGenerator
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
    (run / "statistics").mkdir(exist_ok=True)
    (run / "statistics" / "link").symlink_to(precious)
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


def test_a_link_to_a_run_is_refused_and_the_run_stays_whole(tmp_path: Path) -> None:
    run = written(tmp_path / "runs")
    before = sorted(run.rglob("*"))
    link = tmp_path / "link"
    link.symlink_to(run)
    with pytest.raises(ReportError, match="is a link") as refused:
        delete(run_at(link))
    assert str(run) in str(refused.value.fix) and sorted(run.rglob("*")) == before


def test_what_torchport_did_not_make_is_left(tmp_path: Path) -> None:
    run = written(tmp_path)
    (run / "notes.txt").write_text("mine")
    assert delete(run_at(run)) == [run / "notes.txt"]
    assert [path.name for path in run.iterdir()] == ["notes.txt"]


def test_a_run_in_progress_is_not_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy, other = new_tree(tmp_path, "busy").path, written(tmp_path)
    with in_progress(busy):
        assert [one.status for one in listed(tmp_path) if one.path == str(busy)] == ["running"]
        assert main(["debug", "clean", str(busy), "--yes"]) == 2
        assert "being made right now" in capsys.readouterr().err
        assert main(["debug", "clean", "--root", str(tmp_path), "--yes"]) == 0
        assert f"Left {busy}" in capsys.readouterr().out
        assert busy.exists() and not other.exists()
    assert [one.status for one in listed(tmp_path)] == ["unfinished"]
    assert main(["debug", "clean", "--root", str(tmp_path), "--yes"]) == 0 and not busy.exists()


def test_a_run_whose_process_died_can_be_deleted(tmp_path: Path) -> None:
    run = written(tmp_path)
    (run / RUNNING).write_text("")
    assert not is_in_progress(run)
    assert delete(run_at(run)) == [] and not run.exists()


def test_two_runs_at_a_time_have_two_folders(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: new_tree(tmp_path, "net").path, range(16)))
    assert len(set(paths)) == len(runs_in(tmp_path)) == 16


def test_a_report_that_is_cut_off_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = written(tmp_path)
    report = run / REPORT
    report.write_bytes(report.read_bytes()[:100])
    for command in ("analyze", "report", "minify"):
        assert main(["debug", command, str(run)]) == 2
        said = capsys.readouterr().err
        assert "is no report" in said and "torchport debug run" in said and "check" not in said
    assert main(["debug", "minify", str(tmp_path / "nowhere")]) == 2
    assert "there is nothing at" in capsys.readouterr().err


def test_artifacts_that_are_gone_or_broken_do_not_spoil_the_page(tmp_path: Path) -> None:
    run = written(tmp_path)
    graph = run / "fx_graphs" / "graph_0.py"
    graph.write_bytes(b"\xff\xfe\x00 def")
    assert "fx_graphs/graph_0.py" in ReportGenerator(run).text("html")
    graph.unlink()
    assert "MyNet" in ReportGenerator(run).text("html")
