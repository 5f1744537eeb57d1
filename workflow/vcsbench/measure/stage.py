"""A cell set up to be run: its subjects, its server, its command and environment.

Whatever measures a cell does so on a stage: hyperfine times on it (measure.cell), with steps (measure.steps)
between the runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.files import files_digest, server_files
from vcsbench.measure import launcher, versions
from vcsbench.measure.environment import environment
from vcsbench.measure.isolation import isolate
from vcsbench.measure.server import Server
from vcsbench.measure.servers.kind import HOST
from vcsbench.measure.template import Words, fill, read_arguments
from vcsbench.measure.work.neutral import Neutral
from vcsbench.modules import PACKAGE, cell_code
from vcsbench.programs import BUILT, SUBVERSION, Programs, check_unchanged
from vcsbench.subjects import CLIENT, Subject, subject_class

# The interpreter that has what strategies need, without the user's own settings; and where ours are.
PYTHON = [sys.executable, "-I"]
STRATEGIES = str(PACKAGE / "strategies")
# Subversion's clients that take the options of all clients.
CLIENTS = ("svn", "svnbench", "svnrdump", "svnsync")


class Stage:
    """One round of a cell, by its recipe; `run` is a private folder. Opened, it has `command`, what a client
    runs, `argv`, what is measured (that, or what launches several clients), and `touch`, the command turned
    to where there is nothing to do ([] if there is no such place).
    """

    def __init__(self, recipe: Mapping[str, Any], number: int, run: Path) -> None:
        self.recipe = recipe
        self.run = run
        self.reads = self._subject("input", number)
        self.writes = self._subject("output", number)
        self.subjects = [subject for subject in (self.reads, self.writes) if subject]
        self.client = Programs(**recipe["build"]["client"])
        own = {
            name: text.replace("{run}", str(run)) for name, text in recipe["environment"].items()
        }
        self.environment = environment(self.client, own)
        self.files = self._frozen_files()
        self.server = self._server()
        if self.reads and self.writes:
            self.writes.beside = self.reads
            self.writes.origin = self.origin if self.reads.served else None
        self.command: list[str] = []
        self.argv: list[str] = []
        self.touch: list[str] = []
        self.stdin = ""
        self.asked: dict[str, subprocess.Popen[str]] = {}

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions of the programs, which were asked for them when the stage was opened and may still be
        about to answer: to be heard before anything is timed."""
        return versions.told(self.asked)

    def _subject(self, role: str, number: int) -> Subject | None:
        kind = self.recipe[role]
        return subject_class(kind)(self.recipe, number, self.run) if kind else None

    def _frozen_files(self) -> Path:
        """A copy of the server configuration's files, which has to be what the recipe says: an edit while the
        workflow runs is for its next run."""
        frozen = self.run / "files"
        frozen.mkdir()
        if not self.recipe["servers"]:
            return frozen
        names, folder = self.recipe["access"]["files"], Path(self.recipe["servers"])
        for name, path in server_files(folder, names).items():
            (frozen / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, frozen / name)
        if files_digest(frozen, names) != self.recipe["server_files"]:
            raise UserError(
                f"{folder}: was changed after this run of the workflow had begun; run it again"
            )
        return frozen

    def _server(self) -> Server | None:
        kind = self.recipe["server"]
        if not kind or not self.reads or not self.reads.served:
            return None
        folder = self.run / "server"
        folder.mkdir()
        programs = Programs(**self.recipe["build"]["server"])
        options = self.recipe.get("server_options", ())
        return Server(kind, self.reads.served, self.files, folder, programs, options)

    def open(self, stack: ExitStack) -> None:
        """Check the subjects, start the server (the command has to name its port), and fill in the command;
        `stack` takes what ends all that. The programs are looked at meanwhile."""
        isolate(self.recipe, stack)
        for subject in self.subjects:
            subject.check()
            stack.callback(subject.discard)

        def look() -> None:
            server = self.server.programs if self.server else self.client
            check_unchanged(self.recipe["binaries"], self.client, server)
            if cell_code(self.recipe) != self.recipe["code"]:
                raise UserError(
                    f"{PACKAGE}: the code that measures changed after this run of the workflow had begun; "
                    f"run it again"
                )
            self.fill()
            self.asked = versions.ask(self.command[0], self.server)

        if self.server:
            stack.callback(self.server.close)
        if self.server and not self._is_started_later():
            self.server.start(meanwhile=look)
        else:
            if self.server:
                self.server.settle()
            look()
        self.fill()  # the port may have been taken

    def _is_started_later(self) -> bool:
        """Whether a step before the first run ends the server that was started before it."""
        state = self.recipe["state"]
        steps = [*state["setup"], *state.get("first", []), *state["prepare"]]
        steps = [step for step in steps if step.endswith("-server")]
        return steps[:1] == ["stop-server"] and "start-server" in steps

    def fill(self) -> None:
        """Fill in the command's template, and what goes with it."""
        idle = [subject.idle_words() for subject in self.subjects]
        words = self._own_words()
        self.command = fill(self.recipe["argv"], words)
        self.argv = [*self._launcher(), *self.command]
        self.stdin = "".join(fill(self.recipe["stdin"], words))
        if all(idle) and self.reads and "remote" not in self.recipe:
            touch = fill(self.recipe["argv"], self._words(idle, self.reads.idle_name))
            self.touch = [word.replace(CLIENT, "1") for word in touch]

    def _launcher(self) -> list[str]:
        """What stands before a command that several clients run at once."""
        number = self.recipe.get("clients")
        if not number:
            return []
        python = [sys.executable, "-I", "-S", "-X", "frozen_modules=on"]
        return [*python, launcher.__file__, str(self.launched), str(number), CLIENT]

    @property
    def launched(self) -> Path:
        """What the launcher writes of each run."""
        return self.run / "launched.json"

    def _own_words(self) -> Words:
        """What the words stand for on the cell's own subjects."""
        own = [subject.words() for subject in self.subjects]
        return self._words(own, self.reads.name if self.reads else "")

    def _words(self, own: Sequence[Words], served: str) -> Words:
        """What the words of a template stand for: programs, axes, the subjects' own, and {url}."""
        options = ["--non-interactive", "--config-dir", str(self._client_files())]
        options += self.recipe.get("client_options", [])
        words: dict[str, Any] = {
            axis: lambda v=value: v for axis, value in self.recipe["axes"].items()
        }
        words["python"] = lambda: PYTHON
        words["program"] = lambda: [*PYTHON, STRATEGIES, str(self.recipe["program"])]
        words["built"] = lambda: str(BUILT)
        for name in SUBVERSION:
            plus = options if name in CLIENTS else []
            words[name] = lambda name=name, plus=plus: [self.client.get(name), *plus]
        for program in ("svnadmin", "load"):
            file = self.files / f"{program}.args"
            words[f"{program}_args"] = lambda file=file: read_arguments(file)
        if self.reads and self.reads.served:
            words["url"] = lambda: self.url(served)
        for more in own:
            words |= more
        return words

    def _client_files(self) -> Path:
        # The client writes into its configuration's folder.
        client = self.run / "client"
        if not client.exists():
            given = self.files / "client"
            shutil.copytree(given, client) if given.exists() else client.mkdir()
            # Or the first run writes it, and so more than the others.
            (client / "README.txt").touch()
        return client

    def url(self, name: str) -> str:
        """The URL of what is called so below the served folder; of a server elsewhere, its repository's."""
        assert self.reads
        if remote := self.recipe.get("remote"):
            return str(remote["url"]).replace("{repo}", self.recipe["repository"]["name"])
        scheme = self.recipe["access"]["scheme"]
        if not self.server:
            return f"{scheme}://{urllib.parse.quote(f'{self.reads.served}/{name}')}"
        return f"{scheme}://{HOST}:{self.server.port}/{urllib.parse.quote(name)}"

    def origin(self) -> str:
        """The URL of the tree in what the cell reads."""
        assert self.reads
        tree = self.reads.words().get("tree")
        return f"{self.url(self.reads.name)}/{tree() if tree else ''}".rstrip("/")

    def also(self, template: str) -> list[str]:
        """Another command on the same subjects, by its template, with the same programs and options."""
        return fill(template, self._own_words())

    @property
    def folders(self) -> list[Path]:
        """What the subjects lie in, read and written."""
        return [folder for subject in self.subjects for folder in subject.folders]

    @property
    def neutral(self) -> Neutral:
        """Takes the URLs of what the cell reads out of what is read of a run."""
        if not self.reads or not self.reads.served:
            return Neutral()
        return Neutral(self.url(self.reads.name), *(self.writes.urls if self.writes else ()))
