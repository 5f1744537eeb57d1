"""What cells work on: a file or folder per kind of subject, which is found by its name."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from vcsbench.subjects.subject import Subject


@cache
def subject_of(kind: str) -> type[Subject]:
    """A kind of subject by its name."""
    found: type[Subject] = import_module(f"{__name__}.{kind}").SUBJECT
    return found
