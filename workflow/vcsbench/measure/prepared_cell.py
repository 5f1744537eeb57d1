"""Prepare one round of a cell: its subjects, server, command, environment, and the steps between runs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import __version__, processes
from vcsbench.errors import ProgramError, UserError
from vcsbench.external import pegged
from vcsbench.measure import launcher
from vcsbench.measure.caches import clear_caches
from vcsbench.measure.runs import Invocation
from vcsbench.measure.server import HOST, SERVER_KINDS, Server
from vcsbench.measure.work import UrlNormaliser
from vcsbench.modules import PACKAGE, cell_code
from vcsbench.programs import (
    BUILT,
    SUBVERSION,
    WORD,
    Programs,
    check_unchanged,
    files_digest,
    read_arguments,
    server_file,
    server_files,
)
from vcsbench.storages.disks import check_same_disks
from vcsbench.subjects import CLIENT_NUMBER, Subject, Target, Words, strategies
from vcsbench.subjects.repository import EMPTY, Dump, FreshRepository, Repository
from vcsbench.subjects.tree import BuiltTree, Tree
from vcsbench.subjects.working_copy import WorkingCopy

if TYPE_CHECKING:
    from vcsbench.records import Recipe

SUBJECTS: dict[str, type[Subject]] = {
    "repository": Repository,
    "dump": Dump,
    "fresh_repository": FreshRepository,
    "target": Target,
    "tree": Tree,
    "built_tree": BuiltTree,
    "working_copy": WorkingCopy,
}
# The interpreter that has the modules of strategies, without the user's settings.
PYTHON = [sys.executable, "-I"]
CLIENTS = ("svn", "svnbench", "svnrdump", "svnsync")
WARM_UP_LIMIT_S = 60


class PreparedCell:
    """One round of a cell, by its recipe. `folder` is a private folder, `root` the checkout.

    open() sets `argv` (of a client), `timed` (the command, which may be the launcher of several clients),
    `idle_argv` (on an empty subject, or []), and `versions` of the programs.
    """

    def __init__(self, recipe: Recipe, number: int, folder: Path, root: Path) -> None:
        self.recipe = recipe
        self.folder = folder
        self.root = root
        self.input, self.output = (
            SUBJECTS[kind](recipe, number, folder, root) if kind else None
            for kind in (recipe["input"], recipe["output"])
        )
        self.subjects = [subject for subject in (self.input, self.output) if subject]
        self.client = Programs(**recipe["build"]["client"])
        self.environment = {
            **self.client.environment(),
            **{k: text.replace("{run}", str(folder)) for k, text in recipe["environment"].items()},
        }
        self.files = self._copy_server_files()
        self.server = self._server()
        if self.input and self.output:
            self.output.input = self.input
            self.output.origin = self.origin if self.input.served else None
        self.launcher_report = folder / "launched.json"
        self.argv: list[str] = []
        self.timed = Invocation([], "", self.environment, recipe["time_limit_s"])
        self.idle_argv: list[str] = []
        self.versions: dict[str, str] = {}

    def _copy_server_files(self) -> Path:
        """Copy the files of the server configuration: an edit during the run has no effect.

        Raise UserError if they do not match the recipe.
        """
        copy = self.folder / "files"
        copy.mkdir()
        if not self.recipe["server_folder"]:
            return copy
        names, folder = self.recipe["access"]["files"], self.root / self.recipe["server_folder"]
        for name, path in server_files(folder, names).items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy / name)
        if files_digest(copy, names) != self.recipe["server_files_digest"]:
            raise UserError(f"{folder}: was changed after this workflow run began. Run again.")
        return copy

    def _server(self) -> Server | None:
        kind = self.recipe["access"]["server"]
        if not kind or not self.input or not self.input.served:
            return None
        folder = self.folder / "server"
        folder.mkdir()
        programs = Programs(**self.recipe["build"]["server"])
        options = self.recipe.get("server_options", ())
        server = SERVER_KINDS[kind](self.input.served, self.files, folder, programs, options)
        if self.recipe["server_folder"]:
            server.source = server_file(self.root / self.recipe["server_folder"], server.file)
        return server

    def open(self, stack: ExitStack) -> None:
        """Check subjects, programs and code, and fill in the command, which names the server's port.

        `stack` takes the clean-up. Raise UserError if something differs from the recipe.
        """
        # In a guest, the storage is a mount of the host's files.
        if not self.recipe.get("is_in_guest"):
            check_same_disks(self.recipe.get("disks", {}))
        for subject in self.subjects:
            subject.check()
            stack.callback(subject.discard)
        if self.server:
            stack.callback(self.server.close)
        server = self.server.programs if self.server else self.client
        check_unchanged(self.recipe["binaries"], self.client, server)
        if cell_code(self.recipe) != self.recipe["code"]:
            raise UserError(
                f"{PACKAGE}: the code that measures changed after this workflow run began. Run again."
            )
        self.fill_in()
        name = os.path.basename(self.argv[0])
        commands = {"hyperfine": [Programs().get("hyperfine"), "--version"]}
        commands[name] = [self.argv[0], "--version", *["--quiet"] * name.startswith("svn")]
        if self.server:
            commands[self.server.kind] = [self.server.command()[0], *self.server.version_options]
        self.versions = read_versions(commands)

    def fill_in(self) -> None:
        words = self._words()
        self.argv = timed = fill_template(self.recipe["argv"], words)
        if number := self.recipe.get("clients"):
            python = [sys.executable, "-I", "-S", "-X", "frozen_modules=on"]
            launch = [launcher.__file__, str(self.launcher_report), str(number), CLIENT_NUMBER]
            timed = [*python, *launch, *self.argv]
        stdin = "".join(fill_template(self.recipe["stdin"], words))
        self.timed = self.timed._replace(argv=timed, stdin=stdin)
        idle = [subject.idle_words() for subject in self.subjects]
        if all(idle) and self.input and "remote" not in self.recipe:
            words["url"] = partial(self.url, EMPTY)
            for of_subject in idle:
                words |= of_subject
            argv = fill_template(self.recipe["argv"], words)
            self.idle_argv = [word.replace(CLIENT_NUMBER, "1") for word in argv]

    def fill_template(self, template: str) -> list[str]:
        return fill_template(template, self._words())

    def _words(self) -> Words:
        """Return the words for commands. A callable is called only if a command has its word."""
        words: Words = {axis: str(value) for axis, value in self.recipe["axes"].items()}
        words["python"] = PYTHON
        words["program"] = [*PYTHON, strategies.__file__, self.recipe.get("program", "")]
        words["built"] = str(BUILT)
        for name in SUBVERSION:
            words[name] = partial(self._program, name)
        for program in ("svnadmin", "load"):
            words[f"{program}_args"] = partial(read_arguments, self.files / f"{program}.args")
        if self.input and self.input.served:
            words["url"] = partial(self.url, self.input.name)
        for subject in self.subjects:
            words |= subject.words()
        return words

    def _program(self, name: str) -> list[str]:
        config = ["--non-interactive", "--config-dir", str(self._client_config())]
        options = [*config, *self.recipe.get("client_options", [])] if name in CLIENTS else []
        return [self.client.get(name), *options]

    def _client_config(self) -> Path:
        """Return the client's configuration folder, a copy because the client writes into it."""
        copy = self.folder / "client"
        if not copy.exists():
            given = self.files / "client"
            shutil.copytree(given, copy) if given.exists() else copy.mkdir()
            # Without it, the first run writes it, and so more than the others.
            (copy / "README.txt").touch()
        return copy

    def url(self, name: str) -> str:
        assert self.input
        if remote := self.recipe.get("remote"):
            return str(remote["url"]).replace("{repo}", self.recipe["repository"]["name"])
        scheme = self.recipe["access"]["scheme"]
        if not self.server:
            return f"{scheme}://{urllib.parse.quote(f'{self.input.served}/{name}')}"
        return f"{scheme}://{HOST}:{self.server.port}/{urllib.parse.quote(name)}"

    def origin(self) -> str:
        assert self.input
        tree = self.input.words().get("tree")
        return f"{self.url(self.input.name)}/{tree or ''}".rstrip("/")

    @property
    def urls(self) -> UrlNormaliser:
        if not self.input or not self.input.served:
            return UrlNormaliser()
        return UrlNormaliser(self.url(self.input.name), *(self.output.urls if self.output else ()))

    def run_step(self, name: str) -> None:
        act, _ = STEPS[name]
        act(self)

    def reset_output(self) -> None:
        if self.output:
            self.output.restore()

    def start_server(self) -> None:
        if self.server and not self.server.pid:
            self.server.start()

    def stop_server(self) -> None:
        if self.server:
            self.server.stop()

    def clear_caches(self) -> None:
        folders = [folder for subject in self.subjects for folder in subject.folders]
        clear_caches(self.recipe["clearing"], folders)

    def touch_client(self) -> None:
        if not self.idle_argv:
            return
        try:
            processes.run_program(self.idle_argv, env=self.environment, limit_s=WARM_UP_LIMIT_S)
        except UserError as error:
            if self.recipe.get("fixed_cost") is False:
                return  # it has loaded the client's files before it failed
            raise ProgramError(f"{error} (against an empty repository)") from None
        self.reset_output()


# The steps of hyperfine's --setup and --prepare. The `state` of a recipe lists them, so a recipe with other
# steps is a fault under the same label (tests/workflow/test_evidence.py).
STEPS: dict[str, tuple[Callable[[PreparedCell], None], str]] = {
    "restore": (PreparedCell.reset_output, "Remove the output of the last run"),
    "start-server": (
        PreparedCell.start_server,
        "Start the server, unless it runs, and wait until it answers",
    ),
    "stop-server": (PreparedCell.stop_server, "End the server, if it runs"),
    "sync": (
        lambda cell: os.sync(),
        "Write dirty pages, which cannot be dropped and would disturb a run",
    ),
    "clear-caches": (PreparedCell.clear_caches, "Clear the caches"),
    "touch-client": (
        PreparedCell.touch_client,
        "Run the client once on an empty repository, which loads its own files into the cache",
    ),
}


def fill_template(template: str, words: Words) -> list[str]:
    """Return the argv of a template. A word with several values must be an argument of its own."""
    argv: list[str] = []
    for part in shlex.split(template):
        alone = WORD.fullmatch(part)
        if alone and not isinstance(value := _value(alone[1], words), str):
            argv.extend(value)
            continue
        filled = WORD.sub(lambda match: str(_value(match[1], words)), part)
        # The export of a whole repository is {url}/{tree} with an empty tree.
        filled = filled.rstrip("/") if part.endswith("}") and len(filled) > 1 else filled
        argv.append(pegged(filled))
    return argv


def _value(word: str, words: Words) -> str | Sequence[str]:
    if word not in words:
        raise UserError(f"`argv`: {{{word}}} stands for nothing. Use one of {', '.join(words)}.")
    value = words[word]
    return value() if callable(value) else value


def read_versions(commands: Mapping[str, Sequence[str]]) -> dict[str, str]:
    versions = {"vcsbench": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name, argv in commands.items():
        line = processes.run_program(argv, may_fail=True).output.strip().partition("\n")[0]
        words = line.replace("Apache/", "").split()
        versions[name] = next((word.rstrip("),.") for word in words if word[:1].isdigit()), "")
    return versions
