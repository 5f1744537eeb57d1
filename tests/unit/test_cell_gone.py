"""A cell-round that fails because a file system was unmounted under it says that."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vcsbench.errors import UserError
from vcsbench.run import cell
from vcsbench.subjects.subject import Subject


class Gone(Subject):
    """One whose file system has gone."""

    def check_place(self) -> None:
        raise UserError("/mnt: is on ext4, and was on tmpfs")


def fails_with(monkeypatch: pytest.MonkeyPatch, error: Exception, *kinds: type[Subject]) -> Any:
    """What comes of a cell-round on such subjects in which this is raised."""

    class Fails:
        def __init__(self, *_: Any) -> None:
            subjects = [kind({}, 1, Path()) for kind in kinds]
            self.stage = SimpleNamespace(subjects=subjects)

        def measure(self, _lock: int) -> None:
            raise error

    monkeypatch.setattr(cell, "CellRound", Fails)
    monkeypatch.setattr(cell, "judge_by", lambda *_: None)
    with pytest.raises((UserError, OSError, ValueError)) as raised:
        cell._measure_here({}, 1, {}, Path(), 0)
    return raised.value


def test_that_it_has_gone_is_said_instead_of_what_failed_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = fails_with(monkeypatch, FileNotFoundError("wc.db"), Subject, Gone)
    assert isinstance(found, UserError) and "was on tmpfs" in str(found)


def test_what_fails_for_another_reason_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    error = FileNotFoundError("wc.db")
    assert fails_with(monkeypatch, error, Subject, Subject) is error
    assert fails_with(monkeypatch, ValueError("x"), Gone).args == ("x",)
