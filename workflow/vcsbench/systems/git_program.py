"""Run git on repositories of vcsbench, the same way on each machine."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

from vcsbench import processes
from vcsbench.environment import program_environment
from vcsbench.errors import UserError
from vcsbench.processes import Program
from vcsbench.programs import Programs

# A repository that the git on the PATH is too old for has this file. Its lines are the prefix and the
# LD_LIBRARY_PATH of the git that made it.
GIT_BUILD = "vcsbench-git"

ON_PATH = Programs()
# The variables of all programs (environment.FIXED) exclude the user's configuration, and processes in the
# background. These variables exclude replaced and missing objects, too.
GIT_ENVIRONMENT = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"}
# Several threads would find other deltas in each run. The default settings would make files that a state of a
# repository does not have.
SETTINGS = {
    "core.hooksPath": os.devnull,
    "pack.threads": "1",
    "repack.updateServerInfo": "false",
    "repack.writeBitmaps": "false",
    "gc.writeCommitGraph": "false",
    "fetch.writeCommitGraph": "false",
    "fastimport.unpackLimit": "0",
}


def start_git(
    path: Path,
    *arguments: str,
    stdin: int | IO[Any] = processes.DEVNULL,
    settings: Mapping[str, str] | None = None,
) -> Program:
    """Start a command of git on the repository with the git folder `path`: start_git(path, "repack", "-a").

    The git is that on the PATH, or that of a build that has made the repository (git_of). `settings` are
    added to SETTINGS, or replace some of them: {"pack.compression": "1"}.
    """
    programs = git_of(path)
    # git looks for a user's settings in HOME and XDG_CONFIG_HOME. The git folder of a repository has none.
    variables = {**GIT_ENVIRONMENT, "HOME": str(path), "XDG_CONFIG_HOME": str(path)}
    argv = [*programs.env_command(), programs.get("git"), f"--git-dir={path}"]
    for key, value in {**SETTINGS, **(settings or {})}.items():
        argv += ["-c", f"{key}={value}"]
    failure = f"{path}: git {arguments[0]} failed"
    # With this umask, the servers, which run as another user, can read the files that git makes.
    return Program([*argv, *arguments], failure, program_environment(variables), stdin, umask=0o022)


def run_git(
    path: Path, *arguments: str, stdin: bytes = b"", settings: Mapping[str, str] | None = None
) -> bytes:
    """Return the output of a command of git, which reads `stdin` (start_git). Raise UserError if it fails."""
    with start_git(path, *arguments, stdin=processes.PIPE, settings=settings) as program:
        output, _ = program.process.communicate(stdin)
        program.finish()
    return output


def read_head(path: Path) -> str:
    """Let git return the name of the ref that HEAD leads to, or of the commit if HEAD is detached."""
    try:
        head = run_git(path, "symbolic-ref", "-q", "HEAD")
    except UserError:
        head = run_git(path, "rev-parse", "--verify", "-q", "HEAD")
    return os.fsdecode(head).strip()


def keep_git(path: Path, programs: Programs) -> None:
    """Note in a repository that only the git of a build can read it."""
    (path / GIT_BUILD).write_text(f"{programs.prefix}\n{programs.library_path}\n")


def git_of(path: Path) -> Programs:
    """Return the programs that read a repository: those on the PATH, or those of a build (keep_git)."""
    try:
        prefix, library_path, *_ = (path / GIT_BUILD).read_text().split("\n")
    except FileNotFoundError:
        return ON_PATH
    return Programs(prefix, library_path)


def object_format(path: Path) -> str:
    """Return the kind of digests that name the objects of a repository: sha1 or sha256."""
    return run_git(path, "rev-parse", "--show-object-format").decode("ascii").strip()


def init_reftable(path: Path, digests: str, programs: Programs) -> None:
    """Let git 2.45 or later, from the PATH or a build, make a bare repository with refs in a reftable."""
    options = ["--ref-format=reftable", f"--object-format={digests}", "--template="]
    argv = [
        *programs.env_command(),
        programs.get("git"),
        "init",
        "-q",
        "--bare",
        *options,
        str(path),
    ]
    processes.run_program(argv, env=program_environment(GIT_ENVIRONMENT))


@cache
def git_version(programs: Programs = ON_PATH) -> str:
    """Return the version of git on the PATH or in a build, such as 2.39.5; "" if it is missing."""
    git = programs.find("git")
    if not git:
        return ""
    done = processes.run_program([*programs.env_command(), git, "--version"], may_fail=True)
    words = done.output.split()
    # `git version 2.39.5`, on some systems with the name of the maker behind it.
    return words[2] if not done.code and len(words) > 2 else ""
