"""What cells work on: a file or folder per kind of subject, which is found by its name."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from vcsbench.modules import file_of
from vcsbench.subjects.subject import Subject


def exists(kind: str) -> bool:
    """Whether there is such a kind of subject."""
    return kind.isidentifier() and file_of(f"subjects.{kind}").exists()


@cache
def subject_of(kind: str) -> type[Subject]:
    """A kind of subject by its name."""
    found: type[Subject] = import_module(f"{__name__}.{kind}").SUBJECT
    return found
