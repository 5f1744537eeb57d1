"""Sampling batches: the rounds of each block that the decision files define."""

from vcsbench.files import write_json
from vcsbench.plan.result_state import SamplingBatches, decision_of

STUDY = "s"
BLOCKS = {"log/cold": "digest", "log/hot": "digest"}


def write_decision(root, number, gives=True, **rounds):
    path = root / decision_of(STUDY, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = {f"log/{name}": n for name, n in rounds.items()}
    write_json(path, {"gives": gives, "rounds": blocks, "of": dict.fromkeys(blocks, "digest")})


def batches(root, blocks=BLOCKS):
    return SamplingBatches(STUDY, root, 5, blocks)


def test_batches_have_first_rounds_until_a_decision(tmp_path):
    state = batches(tmp_path)
    assert state.rounds() == {"log/cold": 5, "log/hot": 5} and state.next == 2
    write_decision(tmp_path, 2, cold=7, hot=5)
    assert state.take() and state.next == 3
    assert state.rounds() == {"log/cold": 7, "log/hot": 5}
    assert state.rounds(1) == {"log/cold": 5, "log/hot": 5}


def test_batches_changed_or_new_block_starts_again(tmp_path):
    write_decision(tmp_path, 2, cold=40, hot=9)
    state = batches(tmp_path, {"log/cold": "other", "log/hot": "digest", "dump/cold": "digest"})
    assert state.rounds() == {"log/cold": 5, "log/hot": 9, "dump/cold": 5}


def test_batches_truncated_decision_is_ignored(tmp_path):
    write_decision(tmp_path, 2, cold=7, hot=7)
    write_decision(tmp_path, 3, cold=9, hot=9)
    (tmp_path / decision_of(STUDY, 3)).write_text('{"gives": true')
    assert batches(tmp_path).next == 3
