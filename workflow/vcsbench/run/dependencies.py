"""What code a rule depends on, and how its functions are called."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from vcsbench import modules

ROOT = modules.PACKAGE.parent.parent
F = TypeVar("F", bound=Callable[..., Any])


def signed(function: F) -> F:
    """A function of a rule's with its signature beside it: Snakemake asks for it at each of thousands of
    calls, and finds it out anew each time."""
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return function


def plain_params() -> None:
    """Have Snakemake write down params as they are: where pandas is installed it would import that, to look
    whether one is a frame. None of ours is, and it takes a twentieth of a start."""
    from snakemake import persistence

    notes: Any = getattr(persistence, "PersistenceBase", None)
    # Another Snakemake may do without.
    if hasattr(notes, "_serialize_param_builtin"):
        notes._serialize_param = property(operator.attrgetter("_serialize_param_builtin"))


def command_line() -> tuple[str, list[str]]:
    """By which of its executors the Snakemake that this process is runs jobs ("local", "slurm"), also where
    it only says what it would run, and the targets that it is asked for. A Snakefile is read before
    Snakemake tells it either."""
    frame = inspect.currentframe()
    while frame and frame.f_code.co_name != "args_to_api":
        frame = frame.f_back
    args = frame.f_locals["args"] if frame else None
    return (args.executor or "local", list(args.targets or [])) if args else ("local", [])


@cache
def code_of(script: str) -> list[str]:
    """The files of vcsbench that one of workflow/scripts computes with: Snakemake does not see what a script
    imports."""
    return _code(ROOT / "workflow" / "scripts" / f"{script}.py")


@cache
def code_of_module(name: str) -> list[str]:
    """The same of a module that runs by itself, by its name below vcsbench."""
    return _code(modules.file_of(name))


def _code(file: Path) -> list[str]:
    files = modules.closure(file, all_named=True)
    return [str(path.relative_to(ROOT)) for path in files]
