"""Prepare one round of a cell: its subjects, server, command, environment, and the steps between runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench import __version__, kernel, processes
from vcsbench.axis_names import CLOSED_LOOP
from vcsbench.deployment.access_rules import FORBIDDEN, list_tree_folders, write_rules
from vcsbench.deployment.credentials import store_credentials
from vcsbench.deployment.deployed_server import deployment_of
from vcsbench.deployment.link import SERVER_HOST, Link, LinkedNetworks, Shaper
from vcsbench.errors import ProgramError, UserError
from vcsbench.external import pegged
from vcsbench.measure import launcher, traffic
from vcsbench.measure.caches import clear_caches, load_files
from vcsbench.measure.runs import Invocation
from vcsbench.measure.server import HOST, Server
from vcsbench.measure.server_kinds import SERVER_KINDS
from vcsbench.measure.work import UrlNormaliser
from vcsbench.modules import PACKAGE, cell_code
from vcsbench.programs import (
    BUILD_PROGRAMS,
    BUILT,
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
from vcsbench.subjects.changed_working_copy import ChangedWorkingCopy
from vcsbench.subjects.checkouts import FossilCheckout, FossilRepository, HgCheckout
from vcsbench.subjects.committed_repository import CommittedRepository
from vcsbench.subjects.git_subjects import GitCheckout, GitClone, GitPushTarget, GitRepository
from vcsbench.subjects.repository import Dump, FreshRepository, Repository
from vcsbench.subjects.tree import BuiltTree, Tree
from vcsbench.subjects.working_copy import WorkingCopy

if TYPE_CHECKING:
    from vcsbench.records import Recipe

SUBJECTS: dict[str, type[Subject]] = {
    "repository": Repository,
    "committed_repository": CommittedRepository,
    "dump": Dump,
    "fresh_repository": FreshRepository,
    "target": Target,
    "tree": Tree,
    "built_tree": BuiltTree,
    "working_copy": WorkingCopy,
    "changed_working_copy": ChangedWorkingCopy,
    "git_repository": GitRepository,
    "git_clone": GitClone,
    "git_checkout": GitCheckout,
    "git_pushed": GitPushTarget,
    "hg_checkout": HgCheckout,
    "fossil_repository": FossilRepository,
    "fossil_checkout": FossilCheckout,
}
# The interpreter that has the modules of strategies, without the user's settings.
PYTHON = [sys.executable, "-I"]
# For programs that import little, and whose start is part of the measured time.
FAST_PYTHON = [sys.executable, "-I", "-S", "-X", "frozen_modules=on"]
LAUNCHER = [*FAST_PYTHON, launcher.__file__]
TRAFFIC = [*FAST_PYTHON, traffic.__file__]
# The programs that take a URL, and so the options of the client.
CLIENTS = ("svn", "svnbench", "svnmucc", "svnrdump", "svnsync")
WARM_UP_LIMIT_S = 60
# A larger share of the available memory is not filled with files of the input: other pages would have to go.
MAX_LOADED_SHARE = 0.25
# svn's errors for a path that access rules forbid, over http and svn.
FORBIDDEN_CODES = ("E175013", "E170001")
OPENSSH_VERSION = re.compile(r"OpenSSH_([^\s,]+)")
# Reads the whole tree through the server, which fills its caches.
READ_ALL = "{svnbench} null-export -q {url}/{tree}"


class CellSetup:
    """One round of a cell: a command, what it reads and writes, its server, and the steps between runs."""

    def __init__(self, recipe: Recipe, number: int, folder: Path, root: Path) -> None:
        """Make the subjects and the server, which does not run yet. open() checks the subjects.

        `number` is the number of the round, from 1, `folder` a private folder, and `root` the checkout.
        """
        self.recipe = recipe
        self.number = number
        self.folder = folder
        self.root = root

        # The command reads the input, and writes the output. A subject is one of them.
        self.input = self._make_subject(recipe["input"])
        self.output = self._make_subject(recipe["output"])
        self.subjects = [subject for subject in (self.input, self.output) if subject]
        if self.input and self.output:
            # Some outputs, such as a git clone, are made from the input, and refer to its URL.
            self.output.input = self.input
            # The method, and not its result: the URL has the port of the server, which is made below. No
            # server can serve some inputs, such as a tree (`served` is None).
            self.output.origin = self.origin if self.input.served else None
        # The folder that the server serves; None if it has nothing to serve.
        self.served = self._choose_served_folder()

        self.client = Programs(**recipe["build"]["client"])
        self.environment = self._make_environment()
        self.files = self._copy_server_files()
        # The networks of client and server, which open() makes; None without a line between them.
        self.networks = self._make_networks()
        self.server = self._make_server()
        if self.server:
            # Variables without which the client cannot reach the server, such as GIT_SSH_COMMAND.
            self.environment.update(self.server.client_variables())
        # True after the server has refused what its settings forbid (_check_refusals).
        self.has_checked_refusals = False

        # Files that a timed run writes. The errors are those that requests print.
        self.launcher_report = folder / "launched.json"
        self.traffic_report = folder / "traffic.json"
        self.traffic_errors = folder / "traffic-errors"

        # open() sets these attributes: the command lines (fill_in), and the versions of programs by name.
        self.argv: list[str] = []
        self.idle_argv: list[str] = []
        self.timed = Invocation([], "", self.environment, recipe["time_limit_s"])
        self.requests: list[Invocation] = []
        self.versions: dict[str, str] = {}

    def _make_subject(self, kind: str) -> Subject | None:
        if not kind:
            return None
        return SUBJECTS[kind](self.recipe, self.number, self.folder, self.root)

    def _choose_served_folder(self) -> Path | None:
        """Return the folder with the repositories for the server; None if no subject can be served.

        If input and output have such a folder, it is the output's, to which a push goes.
        """
        served_folders = [subject.served for subject in self.subjects if subject.served]
        return served_folders[-1] if served_folders else None

    def _make_environment(self) -> dict[str, str]:
        """Return the environment of the client: the variables of its build, and those of the cell."""
        environment = self.client.environment()
        for name, value in self.recipe["environment"].items():
            # Some variables name a file of the run, such as the report of a preloaded library.
            environment[name] = value.replace("{run}", str(self.folder))
        return environment

    def _make_networks(self) -> LinkedNetworks | None:
        """Return the networks of client and server with a line between them, not yet open; None without."""
        if "link" not in self.recipe:
            return None
        line = self.recipe["link"]
        link = Link(line["delay_ms"], line["rate_mbit"], line["loss_pct"])
        return LinkedNetworks(link, Shaper(line["shaper"]))

    def _copy_server_files(self) -> Path:
        """Return a folder with a copy of the server configuration, empty for a cell without one.

        An edit of the original then has no effect. Raise UserError if the files do not match the recipe.
        """
        copy = self.folder / "files"
        copy.mkdir()
        # Names such as "svnserve.args". git, hg and fossil read no file of a server configuration.
        names = self.recipe["access"]["files"]
        if not self.recipe["server_folder"] or not names:
            return copy
        folder = self.root / self.recipe["server_folder"]
        for name, path in server_files(folder, names).items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy / name)
        if files_digest(copy, names) != self.recipe["server_files_digest"]:
            raise UserError(f"{folder}: was changed after this workflow run began. Run again.")
        return copy

    def _make_server(self) -> Server | None:
        """Return the server of the cell, not yet started; None if it has no server, or nothing to serve."""
        recipe = self.recipe
        # Such as "svnserve"; "" for local access, and for a server on another machine.
        kind = recipe["access"]["server"]
        if not kind or self.served is None:
            return None
        folder = self.folder / "server"
        folder.mkdir()
        server_class = SERVER_KINDS[kind]
        # The user's configuration file, which errors name. The server reads a copy (`files`).
        source = None
        if recipe["server_folder"] and server_class.file:
            source = server_file(self.root / recipe["server_folder"], server_class.file)
        return server_class(
            root=self.served,
            files=self.files,
            run=folder,
            programs=Programs(**recipe["build"]["server"]),
            # Options that the cell adds to the command line, such as ["--compression", "5"].
            options=recipe.get("server_options", []),
            deployment=deployment_of(recipe),
            source=source,
            # With a line, client and server have networks and addresses of their own.
            host=SERVER_HOST if self.networks else HOST,
            in_network=self.networks.in_server_network if self.networks else nullcontext,
        )

    def open(self, stack: ExitStack) -> None:
        """Check disks, subjects, programs and code against the recipe, and set the commands and `versions`.

        The server is not started, but its port is reserved, because the command names the port. `stack` takes
        the clean-up. Raise UserError if something differs.
        """
        # In a virtual machine, the storage is a mount of the host's files, and has other disks.
        if not self.recipe.get("is_in_guest"):
            check_same_disks(self.recipe.get("disks", {}))
        for subject in self.subjects:
            # The clean-up comes first: a check that fails, as on a full disk, may have made some files.
            stack.callback(subject.discard)
            subject.check()
        # The server reserves its port in its network, so the networks must exist before that.
        if self.networks:
            self.networks.open(stack)
        if self.server:
            stack.callback(self.server.close)
            if "access_rules" in self.recipe:
                self.server.rules = self._make_access_rules(self.server.programs)
        # Without a server, `binaries` has no digest of a server's program to check. So any programs will do.
        server_programs = self.server.programs if self.server else self.client
        check_unchanged(self.recipe["binaries"], self.client, server_programs)
        if cell_code(self.recipe) != self.recipe["code"]:
            raise UserError(
                f"{PACKAGE}: the code that measures changed after this workflow run began. Run again."
            )
        # The command has the port of the server, and words such as {tree} that subject.check() has read.
        self.fill_in()
        self.versions = self._read_versions()

    def _make_access_rules(self, programs: Programs) -> str:
        """Return the text of access rules, which name folders of the tree that the command reads.

        The input has to be checked before: its metadata has the path of the tree.
        """
        assert isinstance(self.input, Repository)
        tree = urllib.parse.unquote(self.input.tree)
        folders = list_tree_folders(
            programs.get("svnlook"), self.input.prepared, tree, programs.environment()
        )
        return write_rules(folders, self.recipe["access_rules"]["count"])

    def _read_versions(self) -> dict[str, str]:
        """Return the versions of hyperfine, client and server by the names of the programs."""
        program = self.argv[0]
        name = os.path.basename(program)
        version_options = ["--version"]
        if name.startswith("svn"):
            # With this option of Subversion's programs, the output is the version alone.
            version_options.append("--quiet")
        commands = {
            "hyperfine": [Programs().get("hyperfine"), "--version"],
            # With the libraries of the client's build, as in the timed command.
            name: [*self.client.env_command(), program, *version_options],
        }
        if self.server:
            commands |= self.server.version_commands()
        return read_versions(commands)

    def fill_in(self) -> None:
        """Fill in the templates of the command: set `argv`, `idle_argv`, `timed` and `requests`.

        - `argv` is the command of one client: "{svn} log {url}" becomes ["/usr/bin/svn", ..., "log",
          "svn://127.0.0.1:40123/ruby"].
        - `idle_argv` is this command on an empty repository.
        - `timed` is what hyperfine runs: this client, the launcher of several clients, or the program that
          sends the requests of many clients (traffic). The files that this program reads are written here.
        - `requests` has one request of each client, the readers' first. It stays [] without traffic.
        """
        words = self._words()
        self.argv = fill_template(self.recipe["argv"], words)
        self.idle_argv = self._fill_in_idle_command(words)
        # The file for the standard input; "" without one. Its template gives a list with one path, or [].
        stdin = "".join(fill_template(self.recipe["stdin"], words))
        client_command = Invocation(self.argv, stdin, self.environment, self.recipe["time_limit_s"])
        if "traffic" in self.recipe:
            commits = self._prepare_commits(words)
            # Without readers, there is one read as well, because its output identifies the repository.
            self.requests = [client_command for _ in range(max(1, self.readers))]
            self.requests += [client_command._replace(argv=commit.argv) for commit in commits]
            specification = self._write_traffic_specification(commits)
            timed_argv = [*TRAFFIC, str(specification)]
        elif "clients" in self.recipe:
            count = str(self.recipe["clients"])
            # The launcher replaces CLIENT_NUMBER by the number of each client.
            timed_argv = [*LAUNCHER, str(self.launcher_report), count, CLIENT_NUMBER, *self.argv]
        else:
            timed_argv = self.argv
        self.timed = client_command._replace(argv=timed_argv)

    @property
    def readers(self) -> int:
        """The number of clients that read, in a cell with traffic; 1 without the axis `readers`."""
        return self.recipe.get("readers", 1)

    def _prepare_commits(self, words: Words) -> list[CommitRequest]:
        """Write the file that each committer changes, and return the request of each committer.

        {client} and {change} in the template of a commit stand for the number of the committer and its file.
        """
        commits = []
        for number in range(1, self.recipe.get("committers", 0) + 1):
            change = self.folder / f"change-{number}"
            change.write_text(f"committer {number}\n")
            committer_words: Words = {**words, "client": str(number), "change": str(change)}
            argv = fill_template(self.recipe["traffic"]["commit"], committer_words)
            commits.append(CommitRequest(argv, str(change)))
        return commits

    def _write_traffic_specification(self, commits: Sequence[CommitRequest]) -> Path:
        """Write the file that measure/traffic.py reads, and return its path."""
        arrival = self.recipe.get("arrival", CLOSED_LOOP)
        specification = {
            "seconds": self.recipe["traffic"]["seconds"],
            # 0: each client sends its next request when its last one has ended.
            "per_s": 0 if arrival == CLOSED_LOOP else float(arrival),
            # The number of the round: all cells of a round have the same arrivals.
            "seed": self.number,
            "readers": self.readers,
            "read": self.argv,
            "commits": [commit._asdict() for commit in commits],
            # The program writes these two files.
            "report": str(self.traffic_report),
            "errors": str(self.traffic_errors),
        }
        file = self.folder / "traffic-specification.json"
        file.write_text(json.dumps(specification))
        return file

    def _fill_in_idle_command(self, words: Words) -> list[str]:
        """Return the idle command: the timed one on empty subjects, such as an empty repository.

        Before a cold run, it loads the files of the client itself, so that only the data are cold. `words`
        are those of the timed command. Return [] without an input, if a subject has no empty counterpart, or
        if the server is on another machine, where vcsbench makes no empty repository.
        """
        if not self.input or "remote" in self.recipe:
            return []
        # A function: fill_template() calls it only if the command has the word {url}, and so needs a port.
        empty_url = partial(self.url, self.input.idle_name)
        idle_words: Words = {**words, "url": empty_url}
        for subject in self.subjects:
            subject_words = subject.idle_words()
            if not subject_words:
                return []
            # These words, such as {repository} and {tree}, replace the real subject's.
            idle_words |= subject_words
        argv = fill_template(self.recipe["argv"], idle_words)
        # If the cell has several clients, client 1 alone runs the idle command. It loads the same files.
        return [word.replace(CLIENT_NUMBER, "1") for word in argv]

    def fill_template(self, template: str) -> list[str]:
        return fill_template(template, self._words())

    def _words(self) -> Words:
        """Return the values of the words in templates: the value of "url" replaces {url} in a command.

        fill_template() calls a value that is a function only if a command has its word: {url}, for example,
        needs a port. Example: {"format": "f7", "python": ["/usr/bin/python3", "-I"], "url": <function>}.
        """
        # The value of an axis is a word as well, such as {format}, unless a word below has the same name.
        words: Words = {axis: str(value) for axis, value in self.recipe["axes"].items()}
        words["python"] = PYTHON
        # A program of vcsbench that builds a tree.
        words["program"] = [*PYTHON, strategies.__file__, self.recipe.get("program", "")]
        words["built"] = str(BUILT)
        for name in BUILD_PROGRAMS:
            words[name] = partial(self._program, name)
        # {svnadmin_args} and {load_args}: options in files of the server configuration, such as cache sizes.
        for program in ("svnadmin", "load"):
            words[f"{program}_args"] = partial(read_arguments, self.files / f"{program}.args")
        # Only a repository that a server may serve has a URL.
        if self.input and self.input.served:
            words["url"] = partial(self.url, self.input.name)
        if self.output and self.output.served:
            words["push_url"] = partial(self.url, self.output.name)
        # Paths, such as {tree} and {working_copy}.
        for subject in self.subjects:
            words |= subject.words()
        return words

    def _program(self, name: str) -> list[str]:
        """Return a program of a build with its options, the value of a word such as {svn} or {git}."""
        if name not in CLIENTS:
            return [self.client.get(name)]
        return self._client_with(name, self._client_config)

    def _client_with(self, name: str, config: Path) -> list[str]:
        """Return the start of the command line of a client: a program of Subversion with its options.

        Example: ["/usr/bin/svn", "--non-interactive", "--config-dir", FOLDER].
        """
        argv = [self.client.get(name), "--non-interactive", "--config-dir", str(config)]
        # Such as exclusive locks of a working copy, and the number of connections over http.
        argv += self.recipe.get("client_options", [])
        argv += self.recipe.get("http_options", [])
        # The certificate that the client has to trust; None without encryption.
        authority = self.server.authority() if self.server else None
        if authority:
            argv += ["--config-option", f"servers:global:ssl-authority-files={authority}"]
        return argv

    @cached_property
    def _client_config(self) -> Path:
        """The client's configuration folder: a copy for all commands, because the client writes into it.

        Raise UserError if the user's settings replace an option of the cell (_check_groups).
        """
        copy = self.folder / "client"
        # The folder is missing if the server configuration has no settings of the client.
        original = self.files / "client"
        if original.exists():
            self._check_groups(original / "servers")
            shutil.copytree(original, copy)
        else:
            copy.mkdir()
        # svn writes README.txt if it is missing. The first run would then write more than later ones.
        (copy / "README.txt").touch()
        if self.server and self.server.credentials:
            # svn reads the password here. In a command line, all users of the machine could read it.
            store_credentials(copy, self.server.realm, self.server.credentials)
        # Lines for the file `config`, without which the client cannot reach the server; "" for most servers.
        settings = self.server.client_config() if self.server else ""
        if settings:
            with (copy / "config").open("a") as config:
                config.write(settings)
        return copy

    def _check_groups(self, copied_file: Path) -> None:
        """Raise UserError if the user's settings of svn would make an option of the command line ineffective.

        Some cells set an option of svn, such as `http-max-connections=1`. But svn prefers the value in its
        file `servers`, if a group (a section with options for some hosts) has the option for the server's
        host. `copied_file` is the copy of this file that svn reads. The error names the user's original.
        """
        # Each option, such as "servers:global:http-max-connections=1", follows the word `--config-option`.
        options = self.recipe.get("http_options", [])[1::2]
        # Options of http have no effect over svn://.
        is_http = self.recipe["access"]["scheme"].startswith("http")
        if not options or not is_http:
            return
        host = self._server_host()
        for option in options:
            group = find_replacing_group(copied_file, host, option)
            if group:
                folder = self.root / self.recipe["server_folder"]
                original_file = server_file(folder, "client/servers")
                setting = option.split(":")[-1]
                raise UserError(
                    f"{original_file}: the group `{group}` has another value for {host} than `{setting}`, "
                    f"which the cell is labelled with. Remove this option from the group."
                )

    def _server_host(self) -> str:
        """Return the host in the URL of the server, such as "127.0.0.1"; "" without a server."""
        # The user's own server, on another machine.
        if "remote" in self.recipe:
            return urllib.parse.urlsplit(self.recipe["remote"]["url"]).hostname or ""
        return self.server.host if self.server else ""

    def url(self, name: str) -> str:
        """Return the URL of a repository, for example svn://127.0.0.1:40123/ruby.f7.nopack.1."""
        # A server on another machine has repositories under their own names, without format and copy.
        if "remote" in self.recipe:
            return self.recipe["remote"]["url"].replace("{repo}", self.recipe["repository"]["name"])
        scheme = self.recipe["access"]["scheme"]
        # Without a server, the client reads the folder of the repository itself, by a URL such as file:///x.
        if not self.server:
            path = urllib.parse.quote(f"{self.served}/{name}")
            return f"{scheme}://{path}"
        return f"{scheme}://{self.server.address}/{urllib.parse.quote(name)}"

    def origin(self) -> str:
        """Return the URL of the tree that the cell reads, or of the repository if the tree is all of it."""
        assert self.input
        url = self.url(self.input.name)
        tree = self.input.words().get("tree")
        if tree:
            url += f"/{tree}"
        return url.rstrip("/")

    @property
    def one_request(self) -> Invocation:
        """The command whose system calls are counted: the timed one, or one request of traffic."""
        return self.requests[0] if self.requests else self.timed

    @property
    def urls(self) -> UrlNormaliser:
        """The URLs that fingerprints leave out, because they differ between cells with the same work."""
        if not self.input or not self.input.served:
            return UrlNormaliser()
        urls = [self.url(self.input.name)]
        if self.output:
            urls += self.output.urls
        return UrlNormaliser(*urls)

    # The steps between runs

    def run_step(self, name: str) -> None:
        STEPS[name].run(self)

    @property
    def writes_input(self) -> bool:
        """True if the command changes its input, as a commit does."""
        return bool(self.input and self.input.is_written)

    def reset_output(self) -> None:
        """Put the output, and an input that the command changes, back to their state before a run."""
        if self.input and self.writes_input:
            # The server's caches have contents of the new revision. The next run commits a revision of the
            # same number, whose file has its parts in another order. A server with the old contents would
            # read that file at wrong places.
            self.stop_server()
            self.input.restore()
        if self.output:
            self.output.restore()

    def fill_server_caches(self) -> None:
        """Read the whole tree through the server, as other users of a server do before a commit."""
        argv = self.fill_template(READ_ALL)
        processes.run_program(argv, env=self.environment, limit_s=self.timed.limit_s)

    def start_server(self) -> None:
        """Start the server, if the cell has one that does not run, and check once what it refuses."""
        if not self.server or self.server.pid:
            return
        self.server.start()
        deployment = self.server.deployment
        must_check = bool(deployment.authentication or deployment.has_rules)
        if must_check and not self.has_checked_refusals:
            self._check_refusals(self.server)
            self.has_checked_refusals = True
            # The check has filled caches of the server. They are empty after a restart, as after any start.
            self.server.stop()
            self.server.start()

    def _check_refusals(self, server: Server) -> None:
        """Raise UserError unless the server refuses an anonymous client, and a path that the rules forbid.

        A server that answers either lacks settings of the cell's label. Also raise UserError if the server
        refuses the cell's own client.
        """
        assert self.input
        # The server also serves an empty repository, under this name.
        url = self.url(self.input.idle_name)
        config = self._client_config
        # A server that serves nobody would also pass the checks below.
        allowed = self._run_svn_info(config, url)
        if allowed.code:
            raise UserError(
                f"{server.kind}: it refuses the client that it should serve: {allowed.errors.strip()}. "
                f"Check {server.source} for directives on access."
            )
        if server.credentials:
            # svn stores passwords in the folder `auth`, so a copy without this folder has none.
            anonymous_config = self.folder / "anonymous"
            shutil.copytree(config, anonymous_config, ignore=shutil.ignore_patterns("auth"))
            if self._run_svn_info(anonymous_config, url).code == 0:
                raise UserError(
                    f"{server.kind}: it serves clients without a password. Remove directives on access from "
                    f"{server.source}."
                )
        if server.deployment.has_rules:
            forbidden = self._run_svn_info(config, f"{url}/{FORBIDDEN}")
            # No repository has this path. Without rules, a server reports that it is missing, not forbidden.
            if not any(code in forbidden.errors for code in FORBIDDEN_CODES):
                raise UserError(
                    f"{server.kind}: it does not read its access rules: {forbidden.errors.strip()}. Remove "
                    f"directives on access from {server.source}."
                )

    def _run_svn_info(self, config: Path, url: str) -> processes.Completed:
        argv = [*self._client_with("svn", config), "info", url]
        return processes.run_program(
            argv, env=self.environment, limit_s=WARM_UP_LIMIT_S, may_fail=True
        )

    def stop_server(self) -> None:
        if self.server:
            self.server.stop()

    def clear_caches(self) -> None:
        folders: list[Path] = []
        for subject in self.subjects:
            folders += subject.folders
        clear_caches(self.recipe["clearing"], folders)

    def load_files(self) -> None:
        """Read all files of the input into the page cache, unless they would fill it.

        If a command reads parts of files, the kernel reads some pages ahead. When a later run comes to the
        last of these pages, the kernel reads further ahead. So a run could read from the disk although an
        equal run came before it.
        """
        # The repository of a server on another machine is not here. A command that commits reads a private
        # copy, which is made later and then is in memory.
        if not self.input or "remote" in self.recipe or self.writes_input:
            return
        available = kernel.memory().available
        if available is None or self.input.size > MAX_LOADED_SHARE * available:
            return
        load_files(*self.input.folders)

    def sync(self) -> None:
        os.sync()

    def touch_client(self) -> None:
        """Run the client on empty subjects, so that its own files are in the page cache before a cold run."""
        if not self.idle_argv:
            return
        # A study has `fixed_cost: false` for a command that may fail on an empty repository. By then, it has
        # loaded the client's files.
        may_fail = not self.recipe.get("fixed_cost", True)
        try:
            processes.run_program(self.idle_argv, env=self.environment, limit_s=WARM_UP_LIMIT_S)
        except UserError as error:
            if not may_fail:
                raise ProgramError(f"{error} (against an empty repository)") from None
        # Remove the output, such as an empty export, also of a command that has failed. A commit, which
        # changes its input, has written nothing, because its working copy was empty. So it needs no reset,
        # which would load names of files into the caches that were cleared before this step.
        if self.output and not self.writes_input:
            self.output.restore_after_idle_run()


class CommitRequest(NamedTuple):
    """The command line of a committer, and the file that it changes before each commit."""

    argv: list[str]
    change: str


class CellStep(NamedTuple):
    """A step of hyperfine's --setup and --prepare, with its description for `vcsbench show`."""

    run: Callable[[CellSetup], None]
    description: str


# The `state` of a recipe lists its steps, so a recipe with other steps is a fault under the same label
# (tests/workflow/test_evidence.py).
STEPS = {
    "restore": CellStep(CellSetup.reset_output, "Remove the output of the last run"),
    "start-server": CellStep(
        CellSetup.start_server,
        "Start the server, unless it runs, and wait until it answers",
    ),
    "load-files": CellStep(
        CellSetup.load_files, "Read all files of the input, if they fit well into the memory"
    ),
    "stop-server": CellStep(CellSetup.stop_server, "End the server, if it runs"),
    "sync": CellStep(
        CellSetup.sync, "Write dirty pages, which cannot be dropped and would disturb a run"
    ),
    "clear-caches": CellStep(CellSetup.clear_caches, "Clear the caches"),
    "touch-client": CellStep(
        CellSetup.touch_client,
        "Run the client once on an empty repository, which loads its own files into the cache",
    ),
}


def fill_template(template: str, words: Words) -> list[str]:
    """Return the command line of a template, in which each {word} is replaced by its value in `words`.

    A value is a text, a list of arguments, or a function that returns one of them. Only a word that stands
    alone can be a list: "{svn} export {url}/{tree}" is ["/usr/bin/svn", ..., "export",
    "svn://127.0.0.1:40123/ruby/trunk"]. Raise UserError for an unknown word.
    """
    is_git = template.startswith(("git ", "{git} "))
    argv: list[str] = []
    for part in shlex.split(template):
        only_word = WORD.fullmatch(part)
        if only_word:
            value = _get_word(only_word[1], words)
            if not isinstance(value, str):
                argv += value
                continue
        argument = WORD.sub(lambda match: str(_get_word(match[1], words)), part)
        # {tree} is "" for a whole repository, so {url}/{tree} ends in a slash, which Subversion's URLs do not
        # have. A slash of the template itself stays, and so does the path `/` alone.
        if part.endswith("}") and len(argument) > 1:
            argument = argument.rstrip("/")
        # Subversion reads the text behind the last @ of a URL as a revision. So pegged() adds an @ to such a
        # URL; other arguments stay as they are. git reads no revision there.
        if not is_git:
            argument = pegged(argument)
        argv.append(argument)
    return argv


def _get_word(name: str, words: Words) -> str | Sequence[str]:
    if name not in words:
        raise UserError(f"`argv`: {{{name}}} stands for nothing. Use one of {', '.join(words)}.")
    value = words[name]
    return value() if callable(value) else value


def find_replacing_group(servers: Path, host: str, option: str) -> str:
    """Return the group in a client's file `servers` that replaces an option for a host; "" if none does.

    `option` is an option of the command line, such as "servers:global:http-max-connections=1". The file may
    have `intranet = *.example.org` in its section `groups`, and `http-max-connections = 4` in its section
    `intranet`. For these hosts, svn then uses 4, because it prefers an option of a group to a global one.
    """
    # Few cells have such an option, and the import takes time in each cell-round.
    import configparser

    parser = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        parser.read(servers, encoding="utf-8")
        groups = parser.items("groups")
    except configparser.Error:
        # There are no groups. Or svn cannot read the file either, and reports that.
        return ""
    name, _, value = option.split(":")[-1].partition("=")
    # svn compares the names of sections without case, and the names in `groups` are in lower case here.
    sections = {section.lower(): section for section in parser.sections()}
    for group, patterns in groups:
        has_host = any(fnmatchcase(host, pattern.strip()) for pattern in patterns.split(","))
        # A group may lack a section ("" names none), or its section may lack the option.
        own_value = parser.get(sections.get(group, ""), name, fallback=value)
        if has_host and own_value.lower() != value:
            return group
    return ""


def read_versions(commands: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the versions that commands print, by their names, and the versions of vcsbench and Python.

    {"svn": ["/usr/bin/svn", "--version", "--quiet"]} gives {"svn": "1.14.2", "vcsbench": ..., "python": ...}.
    """
    versions = {"vcsbench": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name, argv in commands.items():
        # An old sshd has no option for its version. It fails, but prints the version with its usage.
        done = processes.run_program(argv, may_fail=True)
        # OpenSSH's programs print their version as an error.
        openssh_version = OPENSSH_VERSION.search(done.errors)
        versions[name] = openssh_version[1] if openssh_version else _find_version(done.output)
    return versions


def _find_version(output: str) -> str:
    """Return the first number of a first line: 2.4.57 of "Server version: Apache/2.4.57 (Debian)"."""
    first_line = output.strip().partition("\n")[0]
    for word in first_line.replace("Apache/", "").split():
        if word[:1].isdigit():
            return word.rstrip("),.")
    return ""
