"""The state of results: up to date or not, intact or not, and the rounds that decision files define."""

import hashlib
import os

import pytest

from vcsbench.files import write_json, write_record
from vcsbench.plan.result_state import SamplingBatches, decision_of, is_intact, is_up_to_date

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


def nothing(content):
    return content


@pytest.mark.parametrize(
    ("digest", "change_export", "change_context", "expected"),
    [
        ("abc", nothing, nothing, (True, True)),
        ("ab", nothing, nothing, (False, True)),
        ("abc", lambda content: b"{}", nothing, (True, False)),
        ("abc", nothing, lambda content: content[:-1], (False, False)),
        ("abc", nothing, lambda content: content.replace(b"9", b"8"), (True, False)),
        ("abc", nothing, lambda content: b"[1]", (False, False)),
        ("abc", nothing, lambda content: b"[" * 100_000, (False, False)),
        ("abc", None, nothing, (False, False)),
        ("abc", nothing, None, (False, False)),
    ],
)
def test_result_state_of_changed_files(tmp_path, digest, change_export, change_context, expected):
    export, context = tmp_path / "round1.json", tmp_path / "round1.context.json"
    export.write_bytes(b'{"results": []}')
    recipe = {"study": STUDY, "cell": "log", "recipe_digest": "abc", "round": 9}
    sha256 = hashlib.sha256(export.read_bytes()).hexdigest()
    write_record(context, {**recipe, "export_sha256": sha256})
    for path, change in ((export, change_export), (context, change_context)):
        if change:
            path.write_bytes(change(path.read_bytes()))
        else:
            path.unlink()
    assert (is_up_to_date(str(export), digest), is_intact(export)) == expected


@pytest.mark.parametrize(("name", "up_to_date"), [("round1", True), ("round1.context", False)])
def test_result_state_with_a_pipe_is_known_at_once(tmp_path, name, up_to_date):
    for each in ("round1", "round1.context"):
        (tmp_path / f"{each}.json").write_text('{"recipe_digest": "abc"}')
    (tmp_path / f"{name}.json").unlink()
    os.mkfifo(tmp_path / f"{name}.json")
    export = tmp_path / "round1.json"
    assert (is_up_to_date(str(export), "abc"), is_intact(export)) == (up_to_date, False)
