"""Templates of commands."""

import pytest

from vcsbench.errors import UserError
from vcsbench.measure.prepared_cell import fill_template

WORDS = {
    "svn": lambda: ["/usr/bin/svn", "--non-interactive"],
    "url": lambda: "svn://h/r",
    "tree": lambda: "trunk",
    "args": list,
}


def test_fill_template_word_may_be_several_arguments() -> None:
    assert fill_template("{svn} log {args} -v {url}", WORDS) == [
        "/usr/bin/svn", "--non-interactive", "log", "-v", "svn://h/r",
    ]  # fmt: skip


def test_fill_template_word_inside_an_argument() -> None:
    assert fill_template("x {url}/{tree}", WORDS)[1] == "svn://h/r/trunk"
    assert fill_template("x {url}/{tree}", {**WORDS, "tree": str})[1] == "svn://h/r"


def test_fill_template_value_is_not_split() -> None:
    assert fill_template("x {url}", {"url": lambda: "a b 'c"}) == ["x", "a b 'c"]


def test_fill_template_unknown_word_raises() -> None:
    with pytest.raises(UserError, match=r"\{revision\}"):
        fill_template("{svn} log {revision}", WORDS)
