"""Test which files below results/ are removed as damaged, and what counts as a result."""

import errno
import os

import pytest

from vcsbench.errors import UserError
from vcsbench.plan import result_state
from vcsbench.plan.result_state import has_results, remove_unreadable

NAMES = ("round1.json", "round1.context.json")


def rounds_in(folder):
    folder.mkdir(parents=True)
    paths = [folder / name for name in NAMES]
    for path in paths:
        path.write_text('{"results": []}')
    return paths


def raising(error):
    def fail(path, limit):
        raise error

    return fail


@pytest.mark.parametrize("name", ["schema.json", "table.csv"])
def test_remove_unreadable_folder_named_like_a_file_stays(tmp_path, name):
    paths = rounds_in(tmp_path / "results" / "cells" / "study" / "log" / name / "hot-os")
    assert remove_unreadable(tmp_path) == []
    assert [path.exists() for path in paths] == [True, True]


@pytest.mark.parametrize("content", [b"", b"\0" * 9, b'{"results": [', b"\xff"])
def test_remove_unreadable_damaged_file_goes_alone(tmp_path, content):
    damaged, whole = rounds_in(tmp_path / "results" / "cells" / "study" / "schema.json")
    damaged.write_bytes(content)
    assert remove_unreadable(tmp_path) == [damaged]
    assert not damaged.exists()
    assert whole.exists()


@pytest.mark.parametrize("kind", ["tables", "published", "charts"])
def test_remove_unreadable_damaged_file_in_an_output_folder_goes_with_it(tmp_path, kind):
    output = tmp_path / "results" / kind / "study"
    output.mkdir(parents=True)
    (output / "whole.csv").write_text("x\n")
    (output / "damaged.vl.json").write_bytes(b"\0" * 9)
    assert remove_unreadable(tmp_path) == [output]
    assert not output.exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE])
def test_remove_unreadable_read_error_keeps_the_file(tmp_path, monkeypatch, number):
    paths = rounds_in(tmp_path / "results" / "cells" / "study" / "log")
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr(result_state, "read_bytes", raising(error))
    assert remove_unreadable(tmp_path) == []
    assert [path.exists() for path in paths] == [True, True]


def test_remove_unreadable_too_large_file_goes(tmp_path, monkeypatch):
    paths = rounds_in(tmp_path / "results" / "cells" / "study" / "log")
    monkeypatch.setattr(result_state, "read_bytes", raising(UserError("too large")))
    assert remove_unreadable(tmp_path) == sorted(paths)
    assert [path.exists() for path in paths] == [False, False]


def test_has_results_folder_named_like_a_context_is_none(tmp_path):
    folder = tmp_path / "results" / "cells" / "study" / "log" / "round1.context.json"
    folder.mkdir(parents=True)
    assert not has_results(tmp_path)
    rounds_in(folder / "hot-os")
    assert has_results(tmp_path)
