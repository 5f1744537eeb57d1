"""What code a rule depends on, and how its functions are called."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from vcsbench import modules

ROOT = modules.PACKAGE.parent.parent
F = TypeVar("F", bound=Callable[..., Any])


def signed(function: F) -> F:
    """A function of a rule's with its signature beside it: Snakemake asks for it at each of thousands of
    calls, and finds it out anew each time."""
    signature = inspect.signature(function)
    function.__signature__ = signature  # type: ignore[attr-defined]
    # Where Snakemake looks first; another Snakemake may not.
    function._overwrite_params = signature.parameters  # type: ignore[attr-defined]
    return function


def signed_resources() -> None:
    """The same for the method by which Snakemake asks for each resource of a job."""
    from snakemake import resources

    evaluate = getattr(getattr(resources, "Resource", None), "evaluate", None)
    if evaluate:
        # As it is bound: without `self`.
        known = dict([*inspect.signature(evaluate).parameters.items()][1:])
        evaluate._overwrite_params = MappingProxyType(known)


def plain_params() -> None:
    """Have Snakemake write down params as they are: where pandas is installed it would import that, to look
    whether one is a frame. None of ours is, and it takes a twentieth of a start."""
    from snakemake import persistence

    notes: Any = getattr(persistence, "PersistenceBase", None)
    # Another Snakemake may do without.
    if hasattr(notes, "_serialize_param_builtin"):
        notes._serialize_param = property(operator.attrgetter("_serialize_param_builtin"))


def no_pipes() -> None:
    """Tell Snakemake that no input is a pipe or comes from a service, as no rule here has one: it looks for
    that, input by input, through all jobs that a job depends on, which for the measurements of 12,000
    cell-rounds takes 20 s."""
    from snakemake import jobs

    job: Any = getattr(jobs, "Job", None)
    # Another Snakemake may do without.
    if hasattr(job, "is_pipe_or_service_input"):
        job.is_pipe_or_service_input = lambda self, path: False


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
