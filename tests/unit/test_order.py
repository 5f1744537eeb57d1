"""The random order of cell-rounds, their batches, and the state of results.

Drift of the machine affects all cells equally if each cell has each position equally often."""

import os
from collections import Counter
from itertools import groupby, pairwise, product
from pathlib import Path
from types import SimpleNamespace

import pytest
from scipy.stats import chisquare

from project import ODD_FILES
from vcsbench.files import write_json
from vcsbench.plan.grid import CellSpec
from vcsbench.plan.order import run_order
from vcsbench.plan.result_state import (
    SamplingBatches,
    decision_of,
    is_readable,
    is_up_to_date,
    remove_unreadable,
)
from vcsbench.result_paths import CellRound
from vcsbench.run.sampling import SamplingState

STUDY = "s"
AXES = {STUDY: ["command", "repo", "cache"]}
# Six blocks of five cells.
BLOCKS = [
    {"command": c, "repo": "r", "cache": k}
    for c, k in product(("log", "export"), ("cold", "warm", "hot"))
]
CELLS = [
    CellSpec(STUDY, f"{b['command']}/{b['cache']}/{f}", {**b, "format": f})
    for b in BLOCKS
    for f in ("f4", "f5", "f6", "f7", "f8")
]
ROUNDS = 600
# One seed in a thousand is less even than this.
LEAST_P = 0.001


def block_of(path):
    return path.rpartition("/")[0]


def rounds(seed):
    order = run_order(CELLS, AXES, ROUNDS, seed)
    ranked = [[] for _ in range(ROUNDS)]
    for (_, path, number), _ in sorted(order.items(), key=lambda item: item[1]):
        ranked[number - 1].append(path)
    return ranked


def blocks(ranked):
    return [list(cells) for _, cells in groupby(ranked, key=block_of)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_run_order_positions_are_even(seed):
    of_blocks, of_cells = Counter(), Counter()
    for ranked in rounds(seed):
        for place, block in enumerate(blocks(ranked)):
            of_blocks[block_of(block[0]), place] += 1
            of_cells.update((path, at) for at, path in enumerate(block))
    for counts, positions in ((of_blocks, len(BLOCKS) ** 2), (of_cells, len(CELLS) * 5)):
        assert len(counts) == positions
        assert chisquare(list(counts.values())).pvalue > LEAST_P


def test_run_order_groups_blocks_by_cache_in_all_orders():
    # Cold runs clear caches, so they are adjacent and hot runs fill the caches once per round.
    followers, neighbours = set(), set()
    for ranked in rounds(1):
        of_round = blocks(ranked)
        assert len(of_round) == len(BLOCKS), "blocks are contiguous"
        found = [block_of(block[0]).rpartition("/")[2] for block in of_round]
        assert sum(a != b for a, b in pairwise([*found, found[0]])) == 3, found
        followers |= {(a, b) for a, b in pairwise(found) if a != b}
        # A rotation would give each cell the same predecessor.
        neighbours |= {pair for block in of_round for pair in pairwise(block)}
        orders = {tuple(path.rpartition("/")[2] for path in block) for block in of_round}
        assert len(orders) > 1
    assert len(followers) == 3 * 2
    assert len(neighbours) == len(BLOCKS) * 5 * 4


def test_run_order_studies_are_sequential():
    both = [CellSpec(study, cell.path, cell.axes) for study in ("z", "a") for cell in CELLS]
    order = run_order(both, {"z": ["command"], "a": ["command"]}, 3, seed=1)
    places = {s: [at for (study, *_), at in order.items() if study == s] for s in ("z", "a")}
    assert max(places["z"]) < min(places["a"])
    alone = run_order([c for c in both if c.study == "a"], {"a": ["command"]}, 3, seed=1)
    first = min(places["a"])
    assert alone == {key: at - first for key, at in order.items() if key[0] == "a"}


def test_run_order_by_block_finishes_each_block():
    elsewhere, there = (run_order(CELLS, AXES, 5, 1, by_block=by) for by in (False, True))
    assert elsewhere.keys() == there.keys()
    ranked = sorted(there, key=lambda key: there[key])
    apart = [list(of) for _, of in groupby(ranked, key=lambda key: block_of(key[1]))]
    assert len(apart) == len(BLOCKS)
    for of_block in apart:
        assert [number for _, _, number in of_block] == sorted([1, 2, 3, 4, 5] * 5)
    others = [run_order(CELLS, AXES, 5, seed, by_block=True) for seed in range(20)]
    firsts = {block_of(min(order, key=lambda key: order[key])[1]) for order in others}
    assert len(firsts) > len(BLOCKS) / 2
    drawn = {tuple(path for _, path, n in apart[0] if n == number) for number in range(1, 6)}
    assert len(drawn) > 1


# Sampling batches, and the state of results

DIGESTS = {"log/cold": "digest", "log/hot": "digest"}


def write_decision(root, number, **rounds):
    path = root / decision_of(STUDY, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = {f"log/{name}": n for name, n in rounds.items()}
    of = dict.fromkeys(blocks, "digest")
    write_json(path, {"gives": True, "rounds": blocks, "of": of, "spent_s": 100.0})


def batches(root, blocks=DIGESTS):
    return SamplingBatches(STUDY, root, 5, blocks)


def test_batches_have_first_rounds_until_a_decision(tmp_path):
    state = batches(tmp_path)
    assert state.rounds() == {"log/cold": 5, "log/hot": 5} and state.next == 2
    write_decision(tmp_path, 2, cold=7, hot=5)
    assert state.next == 3
    assert state.rounds() == {"log/cold": 7, "log/hot": 5}
    assert state.rounds(1) == {"log/cold": 5, "log/hot": 5}


def test_batches_truncated_decision_is_ignored(tmp_path):
    write_decision(tmp_path, 2, cold=7, hot=7)
    write_decision(tmp_path, 3, cold=9, hot=9)
    (tmp_path / decision_of(STUDY, 3)).write_text('{"gives": true')
    assert batches(tmp_path).next == 3


def test_batches_changed_or_new_block_starts_again(tmp_path):
    write_decision(tmp_path, 2, cold=40, hot=9)
    state = batches(tmp_path, {"log/cold": "other", "log/hot": "digest", "dump/cold": "digest"})
    assert state.rounds() == {"log/cold": 5, "log/hot": 9, "dump/cold": 5}


def test_sampling_state_spent_time_is_that_of_results_that_are_fresh(tmp_path):
    write_decision(tmp_path, 2, cold=7, hot=5)
    plan = SimpleNamespace(
        root=tmp_path,
        config=SimpleNamespace(settings=SimpleNamespace(measure="all")),
        batches={STUDY: batches(tmp_path)},
        exports_of_study=lambda study: ["a", "b", "c", "d"],
        fresh_exports_of_study=lambda study: ["a"],
    )
    assert SamplingState(plan).spent_s() == 100 / 4
    assert SamplingState(plan).decisions(STUDY) == [decision_of(STUDY, n) for n in (2, 3)]


def test_sampling_state_spent_time_of_a_study_that_is_skipped_now_is_zero(tmp_path):
    write_decision(tmp_path, 2, cold=7, hot=5)
    plan = SimpleNamespace(
        root=tmp_path,
        config=SimpleNamespace(settings=SimpleNamespace(measure="all")),
        batches={STUDY: batches(tmp_path, {})},
        exports_of_study=lambda study: [],
        fresh_exports_of_study=lambda study: [],
    )
    assert SamplingState(plan).spent_s() == 0


@pytest.mark.parametrize(
    ("digest", "change_export", "change_context", "expected"),
    [
        ("abc", None, None, (True, True)),
        ("ab", None, None, (False, True)),
        ("abc", lambda content: b"{}", None, (True, False)),
        ("abc", None, lambda content: content[:-1], (False, False)),
        ("abc", None, lambda content: content.replace(b"9", b"8"), (True, True)),
        ("abc", None, lambda content: b"[1]", (False, False)),
        ("abc", None, lambda content: b"[" * 100_000, (False, False)),
        ("abc", "gone", None, (False, False)),
        ("abc", None, "gone", (False, False)),
        ("abc", "pipe", None, (True, False)),
        ("abc", None, "pipe", (False, False)),
    ],
)
def test_result_state_of_changed_files(tmp_path, digest, change_export, change_context, expected):
    result = CellRound(STUDY, "log", 1).below(tmp_path)
    export, context = Path(result.export), Path(result.context)
    assert CellRound.parse(export) == CellRound.parse(context) == result
    export.parent.mkdir(parents=True)
    export.write_bytes(b'{"results": []}')
    write_json(context, {"study": STUDY, "cell": "log", "recipe_digest": "abc", "round": 9})
    for path, change in ((export, change_export), (context, change_context)):
        if callable(change):
            path.write_bytes(change(path.read_bytes()))
        elif change:
            path.unlink()
            if change == "pipe":
                os.mkfifo(path)
    assert (is_up_to_date(result, digest), is_readable(result)) == expected


@pytest.mark.parametrize("is_removed", [True, False])
@pytest.mark.parametrize(
    ("name", "damaged", "others"),
    [
        # An edited file is the user's.
        ("cells/s/a/round1.json", [b"", b"{", b"[" * 100_000, b"\xff", b"\0\0"], [b'{"a": []}']),
        ("budget/s/batch2.json", [b"{"], [b"{}"]),
        ("grid/s.csv", [b"", b"\xff", b"\0\0"], [b"cell,skip\nlog,\n"]),
        ("tables/s/f6-vs-f7.csv", [], [b"table,ratio\nf6-vs-f7,99\n"]),
        # The jobs of these files make them again.
        ("repositories/disk.json", [], [b"{"]),
        ("loaded/ruby/f7.json", [], [b"{"]),
        ("logs/cells/log.csv", [], [b""]),
    ],
)
def test_remove_unreadable_removes_only_files_that_no_program_can_read(
    tmp_path, name, damaged, others, is_removed
):
    path = tmp_path / "results" / name
    path.parent.mkdir(parents=True)
    for content in damaged if is_removed else others:
        path.write_bytes(content)
        assert remove_unreadable(tmp_path) == ([path] if is_removed else [])
        assert path.exists() is not is_removed


def test_remove_unreadable_removes_folder_of_tables_with_unreadable_one(tmp_path):
    folder = tmp_path / "results" / "tables" / "s"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"{name}.csv").write_bytes(b"\xff")
    assert remove_unreadable(tmp_path) == [folder]
    assert not folder.exists()


def test_remove_unreadable_removes_pipe_and_link_to_device(tmp_path):
    folder = tmp_path / "results" / "measurements"
    folder.mkdir(parents=True)
    for kind in ("pipe", "device", "loop"):
        ODD_FILES[kind](folder / f"{kind}.csv")
    assert len(remove_unreadable(tmp_path)) == 3
    assert [*folder.iterdir()] == []
