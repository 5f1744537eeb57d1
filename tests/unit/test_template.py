"""Filling in a command's template."""

import pytest

from vcsbench.errors import UserError
from vcsbench.measure.prepared_cell import fill_template

WORDS = {
    "svn": lambda: ["/usr/bin/svn", "--non-interactive"],
    "url": lambda: "svn://h/r",
    "tree": lambda: "trunk",
    "args": list,
}


def test_a_word_may_stand_for_several_arguments_or_none() -> None:
    assert fill_template("{svn} log {args} -v {url}", WORDS) == [
        "/usr/bin/svn", "--non-interactive", "log", "-v", "svn://h/r",
    ]  # fmt: skip


def test_words_inside_a_word_and_an_empty_tree() -> None:
    assert fill_template("x {url}/{tree}", WORDS)[1] == "svn://h/r/trunk"
    assert fill_template("x {url}/{tree}", {**WORDS, "tree": str})[1] == "svn://h/r"


def test_values_are_never_split() -> None:
    assert fill_template("x {url}", {"url": lambda: "a b 'c"}) == ["x", "a b 'c"]


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(UserError, match=r"\{revision\}"):
        fill_template("{svn} log {revision}", WORDS)
