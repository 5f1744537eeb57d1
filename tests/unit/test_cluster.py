"""A run on a cluster, without one: what goes where, what of a node's is taken over, what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vcsbench.run.nodes import Pin, collect, make_folder, node_folder

from fakes import Fakes
from vcsbench.axes import reflink
from vcsbench.config.configuration import merge
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.plan.shares import shares_of
from vcsbench.plan.twins import is_twin, original_of
from vcsbench.run import share
from vcsbench.run.cluster import Cluster, clean_nodes
from vcsbench.run.project import BLOCKS, Project
from vcsbench.storages.place import Place

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config" / "config.yaml"
STUDY = "fsfs-san-2014"
PART = {"command": ["log", "export"], "ra": ["svn", "file"], "config": "slow", "packing": "nopack"}
PART |= {"cache": ["hot-os", "hot-svn"]}


def cluster(tmp_path: Path, **over: Any) -> Cluster:
    """A run of a few blocks, on two nodes."""
    if not (tmp_path / "config").exists():
        (tmp_path / "config").symlink_to(ROOT / "config")
    said = {"studies": [STUDY], "grid": {STUDY: {"include": [PART]}}, "rounds": 2}
    said |= {"cluster": {"nodes": 2, "class": "bench", "cores": 4}, **over}
    raw = merge(read_yaml(DEFAULT), said)
    return Cluster(Project(raw, tmp_path, [DEFAULT], is_cluster=True).plan, raw)


@given(
    st.dictionaries(st.tuples(st.just("s"), st.text("abc", min_size=1)), st.integers(1, 50)),
    st.integers(1, 5),
)
def test_each_block_has_one_share_and_shares_are_even(
    sizes: dict[tuple[str, str], int], count: int
) -> None:
    shares = shares_of(sizes, count, {})
    assert shares.keys() == sizes.keys()
    load = Counter(dict.fromkeys(range(1, count + 1), 0))
    for block, number in shares.items():
        load[number] += sizes[block]
    assert load.keys() == set(range(1, count + 1))
    assert max(load.values()) - min(load.values()) <= max(sizes.values(), default=0)


def test_a_block_stays_where_it_was_when_others_come() -> None:
    before = shares_of({("s", "a"): 9, ("s", "b"): 1}, 2, {})
    after = shares_of({("s", "a"): 9, ("s", "b"): 1, ("s", "c"): 30}, 2, before)
    assert {block: after[block] for block in before} == before
    assert after["s", "c"] == before["s", "b"]
    # Of a share that there is no more, they go elsewhere.
    assert set(shares_of({("s", "a"): 9, ("s", "b"): 1}, 1, before).values()) == {1}


def test_all_cells_of_a_block_and_their_twins_are_of_one_share(tmp_path: Path) -> None:
    run = cluster(tmp_path)
    works = [run.work(number) for number in (1, 2)]
    cells = [set(work["digests"]) for work in works]
    assert not cells[0] & cells[1]
    assert cells[0] | cells[1] == {f"{STUDY}/{cell.path}" for cell in run.plan.cells}
    twins = [name for of in cells for name in of if is_twin(name)]
    assert twins
    for of in cells:
        assert {original_of(name) for name in of} <= of
    # Each block has all of its rounds in one.
    blocks = [set(work["blocks"]) for work in works]
    assert not blocks[0] & blocks[1] and len(blocks[0] | blocks[1]) >= 4
    for work in works:
        rounds = [export for of in work["blocks"].values() for export in of]
        assert sum("/empty/" not in export for export in rounds) == 2 * sum(
            "/empty/" not in name for name in work["digests"]
        )


def test_another_cell_of_one_share_is_nothing_to_the_other(tmp_path: Path) -> None:
    run = cluster(tmp_path)
    run.write()
    before = [run.digest(number) for number in (1, 2)]
    blocks = {block: share for (_, block), share in run.shares.items()}
    more = {**PART, "command": "null-export", "cache": "hot-os"}
    after = cluster(tmp_path, grid={STUDY: {"include": [PART, more]}}, duplicates=1)
    changed = {share for (_, b), share in after.shares.items() if b not in blocks}
    assert changed
    for number in (1, 2):
        assert (after.digest(number) == before[number - 1]) == (number not in changed)


def test_where_a_job_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = cluster(tmp_path)
    programs = Fakes(tmp_path)
    programs.add("sinfo", 'case "$*" in *n2*) echo "down*" ;; *) echo idle ;; esac')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    run.write()
    assert run.constraint == {"constraint": "bench"} and run.cores == 4
    assert run.slurm_extra(1, 1) == "--exclusive"
    Pin(tmp_path, 1).move("n1", [])
    assert run.slurm_extra("1", 2) == "--exclusive --nodelist=n1"
    Pin(tmp_path, 2).move("n2", [])
    assert run.slurm_extra(2, 2) == "--exclusive --exclude=n2"
    Pin(tmp_path, 2).refuse("n3", "its kernel is another")
    Pin(tmp_path, 2).move("n1", ["log"])
    assert run.slurm_extra(2, 3) == "--exclusive --nodelist=n1"
    assert run.avoided(2) == ["n2", "n3"]
    named = cluster(tmp_path, cluster={"nodes": ["n4", "n1"]})
    assert named.host(1, 1) == "n1" and named.host(2, 1) == "n1"
    assert named.constraint == {}


def test_a_node_prepares_for_its_own_blocks_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cluster(tmp_path)
    repositories = Project(run.raw, tmp_path, [DEFAULT]).shelf.all_repositories()
    assert repositories
    some = next(iter(run.work(1)["blocks"]))
    monkeypatch.setenv(BLOCKS, some)
    assert Project(run.raw, tmp_path, [DEFAULT]).shelf.all_repositories() == [some.split("/")[2]]


def measured(folder: Path, export: str, digest: str, host: str) -> None:
    """A cell-round as it is found on a node."""
    path = folder / export
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"results": [host]}).encode()
    path.write_bytes(content)
    cell = export.removeprefix(f"results/cells/{STUDY}/").rpartition("/")[0]
    said = {"study": STUDY, "cell": cell, "recipe_digest": digest, "host": {"name": host}}
    said |= {"export_sha256": hashlib.sha256(content).hexdigest()}
    path.with_suffix(".context.json").write_text(json.dumps(said))


def test_what_is_whole_stays_on_a_lost_node_and_what_is_not_goes(tmp_path: Path) -> None:
    exports = {
        block: [f"results/cells/{STUDY}/{block}/round{n}.json" for n in (1, 2)] for block in "ab"
    }
    work = {
        "digests": {f"{STUDY}/a": "1", f"{STUDY}/b": "2"},
        "blocks": {f"{STUDY}/{b}": of for b, of in exports.items()},
        "others": [],
    }
    (tmp_path / "results" / "cluster").mkdir(parents=True)
    lost, other = (node_folder(tmp_path, 1, node) for node in ("n1", "n2"))
    Pin(tmp_path, 1).move("n1", [])
    for export in exports["a"]:
        measured(lost, export, "1", "n1")
    measured(lost, exports["b"][0], "2", "n1")
    assert collect(tmp_path, 1, work) == {f"{STUDY}/a": "n1"}
    assert (tmp_path / exports["b"][0]).exists()
    # On the next node the block begins anew.
    other.mkdir(parents=True)
    Pin(tmp_path, 1).move("n2", [f"{STUDY}/b"])
    assert collect(tmp_path, 1, work) == {f"{STUDY}/a": "n1"}
    assert not (tmp_path / exports["b"][0]).exists()
    for export in exports["b"]:
        measured(other, export, "2", "n2")
    assert collect(tmp_path, 1, work) == {f"{STUDY}/a": "n1", f"{STUDY}/b": "n2"}
    for block, node in (("a", "n1"), ("b", "n2")):
        for export in exports[block]:
            assert json.loads((tmp_path / export).read_text()) == {"results": [node]}
    [said] = Pin(tmp_path, 1).lost
    assert (said["node"], said["to"], said["blocks"]) == ("n1", "n2", [f"{STUDY}/b"])
    # What was measured as another recipe is none.
    assert collect(tmp_path, 1, {**work, "digests": {f"{STUDY}/a": "1"}}) == {f"{STUDY}/a": "n1"}


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"kernel": "2.6"}, "n2: is refused: its kernel is .*, and n1's is 2.6"),
        ({"memory_gib": 7777}, "n2: is refused: its memory in GiB is .*, and n1's is 7777"),
        ({"cpu": "Z80"}, "n2: is refused: its processor is .*, and n1's is Z80"),
    ],
)
def test_a_node_that_is_not_of_its_class_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    known: dict[str, Any],
    why: str,
) -> None:
    run = cluster(tmp_path)
    run.write()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setattr(share, "_run", lambda *_: None)
    monkeypatch.setattr(share, "end_when_told", lambda: None)
    # The first one says what the class is; nothing is measured, and it says so.
    assert share.main("1", "record") == 1
    assert "n1: not all was measured of" in capsys.readouterr().err
    path = tmp_path / share.CLASS
    path.write_text(json.dumps({**json.loads(path.read_text()), **known}))
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    assert share.main("2", "record") == 1
    said = capsys.readouterr().err
    assert re.search(why, said), said
    assert Pin(tmp_path, 2).refused[0]["node"] == "n2"
    assert not Path("record").exists()
    # The rest of a run does not try again what has failed.
    assert share.main("1", "record") == 1
    assert "(it is not tried again before the next run)" in capsys.readouterr().err


def test_another_program_on_a_node_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = cluster(tmp_path)
    run.write()
    path = tmp_path / "results" / "cluster" / "share1.work.json"
    work = json.loads(path.read_text())
    name = min(work["digests"])
    work["digests"][name] = "0"
    path.write_text(json.dumps(work))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setattr(share, "end_when_told", lambda: None)
    assert share.main("1", "record") == 1
    said = capsys.readouterr().err
    assert f"n1: is refused: {name} is another measurement there" in said


def test_nothing_is_measured_where_the_run_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(tmp_path).write()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    monkeypatch.setattr(share, "end_when_told", lambda: None)
    assert share.main("1", "record") == 1
    assert "is where the run was started: nothing is measured there" in capsys.readouterr().err


def test_a_nodes_folder_is_a_checkout_with_results_of_its_own(tmp_path: Path) -> None:
    for name in ("workflow", "results", "nodes", ".snakemake"):
        (tmp_path / name).mkdir()
    (tmp_path / "Snakefile").touch()
    folder = make_folder(tmp_path, 1, "n1")
    make_folder(tmp_path, 1, "n1")
    assert {path.name for path in folder.iterdir()} == {"workflow", "Snakefile"}
    assert (folder / "workflow").resolve() == tmp_path / "workflow"


def test_what_lies_on_a_node_is_removed_there_or_said_to_be_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    run = cluster(tmp_path, scratch=str(tmp_path), storages={"disk": str(tmp_path)})
    run.write()
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    folders = {node: make_folder(tmp_path, 1, node) for node in ("n1", "n2")}
    for folder in folders.values():
        (folder / ".vcsbench").mkdir()
        (folder / share.CONFIG).write_text(json.dumps(run.raw))
    there = Place(tmp_path, folders["n1"])
    other = Place(tmp_path, folders["n2"])
    for place in (there, other):
        place.make("repositories")
    # Nothing reaches the other one.
    monkeypatch.setenv("PATH", str(Fakes(tmp_path).bin))
    said = clean_nodes(tmp_path)
    assert f"n1: removed {there.path}" in said
    assert not there.path.exists() and not folders["n1"].exists()
    assert other.path.exists() and folders["n2"].exists()
    assert any(line.startswith("n2: what lies there is left; there, env PYTHON") for line in said)


def test_a_storage_is_named_by_its_whole_path(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`storages.disk`: here is relative .* say the whole path"):
        cluster(tmp_path, storages={"disk": "here"})


def test_a_library_of_the_checkout_has_one_name_on_all_nodes(tmp_path: Path) -> None:
    built = tmp_path / reflink.LIBRARY
    built.parent.mkdir(parents=True)
    built.touch()
    node = make_folder(tmp_path, 1, "n1")
    assert reflink._library(node) == reflink._library(tmp_path) == built
