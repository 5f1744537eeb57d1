"""What decisions say of the rounds of each block, and what is kept of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vcsbench.files import write_json
from vcsbench.plan.result_state import SamplingBatches, block_name, decision_of

STUDY = "s"
BLOCKS = {"log/cold": "one", "log/hot": "one"}


def decide(root: Path, number: int, gives: bool = True, **rounds: int) -> None:
    path = root / decision_of(STUDY, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    said: dict[str, Any] = {f"log/{name}": n for name, n in rounds.items()}
    write_json(path, {"gives": gives, "rounds": said, "of": dict.fromkeys(said, "one")})


def passes(root: Path, blocks: dict[str, str] = BLOCKS) -> SamplingBatches:
    return SamplingBatches(STUDY, root, 5, blocks)


def test_without_decisions_all_have_the_first_rounds(tmp_path: Path) -> None:
    found = passes(tmp_path)
    assert found.rounds() == {"log/cold": 5, "log/hot": 5} and found.next == 2


def test_the_last_decision_that_gave_any_says_everything(tmp_path: Path) -> None:
    decide(tmp_path, 2, cold=8, hot=5)
    decide(tmp_path, 3, cold=8, hot=9)
    decide(tmp_path, 4, gives=False, cold=8, hot=9)
    found = passes(tmp_path)
    assert found.rounds() == {"log/cold": 8, "log/hot": 9}
    assert found.next == 4  # which may be decided anew, with more minutes
    assert not found.take()


def test_a_decision_is_taken_over_when_it_is_made(tmp_path: Path) -> None:
    found = passes(tmp_path)
    decide(tmp_path, 2, cold=7, hot=5)
    assert found.take() and found.next == 3
    assert found.rounds() == {"log/cold": 7, "log/hot": 5}
    assert found.rounds(1) == {"log/cold": 5, "log/hot": 5}  # what the decision was made from


def test_rounds_of_another_history_do_not_count_and_new_blocks_begin(tmp_path: Path) -> None:
    decide(tmp_path, 2, cold=40, hot=9)
    found = passes(tmp_path, {"log/cold": "other", "log/hot": "one", "dump/cold": "one"})
    assert found.rounds() == {"log/cold": 5, "log/hot": 9, "dump/cold": 5}


def test_a_decision_that_is_torn_is_none(tmp_path: Path) -> None:
    decide(tmp_path, 2, cold=7, hot=7)
    decide(tmp_path, 3, cold=9, hot=9)
    (tmp_path / decision_of(STUDY, 3)).write_text('{"gives": true')
    assert passes(tmp_path).next == 3


def test_a_block_is_named_by_what_its_cells_agree_on() -> None:
    axes = {"command": "log", "repo": "ruby", "ra": "", "cache": "cold"}
    assert block_name(["command", "ra", "cache"], axes) == "log/-/cold"
    assert block_name([], axes) == "all"
