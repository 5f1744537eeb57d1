"""The command of make that repeats a recorded command line.

Pages and the terminal print commands that a reader can paste. They start from the command line of the run, so
that they measure the same study with the same options.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import dropwhile

from vcsbench.config.validation import parse_yaml
from vcsbench.errors import UserError
from vcsbench.plan.result_state import NOTHING

# The variables of make by the fields of MakeCommand, in the order in which a command has them.
VARIABLES = {
    "repository": "REPO",
    "tree": "TREE",
    "server_log": "LOG",
    "study": "STUDY",
    "arguments": "ARGS",
    "minutes": "MINUTES",
    "baseline": "NAME",
}
# Settings of --config that are not repeated: they would override the variables of a repeated run.
DROPPED_KEYS = ("minutes", "studies", "repository", "tree", "server_log")
# Options of Snakemake without a value, which can be joined: `-Fk`. -f and -F measure again what is measured.
JOINED_OPTIONS = re.compile("-[Ffknpq]+")
FORCING = re.compile("[Ff]")


@dataclass(frozen=True)
class MakeCommand:
    """The variables of a command of make. A variable that is "" is left out of the command.

    `arguments` are further arguments of Snakemake, quoted for a shell. `baseline` is the name under which
    `make baseline` saves results.
    """

    repository: str = ""
    tree: str = ""
    server_log: str = ""
    study: str = ""
    arguments: str = ""
    minutes: str = ""
    baseline: str = ""

    def text(self, target: str = "report") -> str:
        """Return the command for a shell: `make report STUDY=fsfs-san-2014 ARGS='--config seed=2'`."""
        parts = ["make", target]
        for field, variable in VARIABLES.items():
            value = getattr(self, field)
            if field == "arguments":
                # make expands dollar signs in ARGS, but in no other variable. Two stand for one.
                value = value.replace("$", "$$")
            if value:
                parts.append(f"{variable}={shlex.quote(value)}")
        return " ".join(parts)

    def with_arguments(self, arguments: str) -> MakeCommand:
        """Return the command with further arguments of Snakemake behind its own."""
        return replace(self, arguments=f"{self.arguments} {arguments}".strip())

    @property
    def configuration_arguments(self) -> str:
        """Return the arguments that configure a run, such as `--configfile my.yaml --config seed=2`.

        They are "" without such options. A command that measures one cell needs the same configuration:
        `clear_caches=evict`, for example, protects a server that is in use. The other arguments, such as
        `-k`, are about a whole run.
        """
        chosen = []
        is_of_configuration = False
        for argument in shlex.split(self.arguments):
            # These options may have several values: `--configfile a.yaml b.yaml`. All words up to the next
            # option belong to them. `--configfile` begins with `--config`, so the test finds both.
            if argument.startswith("-"):
                is_of_configuration = argument.startswith(("--config", "-C"))
            if is_of_configuration:
                chosen.append(argument)
        return shlex.join(chosen)


def parse_command(command_line: str) -> MakeCommand:
    """Return the command of make that repeats a run, from the recorded command line of that run.

    Example: `vcsbench run --study=builds --minutes=9 -k` gives `make report STUDY=builds ARGS=-k`. Left out
    are limits of time and cores, and studies in --config. So are options that suppress the measuring, such as
    --report-only, and options that force it, such as --forceall. A repository, tree or log of a server in
    --config becomes a variable. A command line that is empty or has an unbalanced quote gives `make report`.
    """
    try:
        command_words = shlex.split(command_line)
    except ValueError:
        command_words = []
    # The program and its action precede the first option: `vcsbench run`, `snakemake`. They are dropped, and
    # so are the options -f and -F, which force the measuring.
    options = _without_forcing(dropwhile(lambda word: not word.startswith("-"), command_words))

    # The parser has the options that become variables, and those that are left out.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    # The record of the command line may be damaged. With nargs="?", an option without its value is no error,
    # and counts as `const`: "".
    for option in ("--repository", "--tree", "--server-log", "--study"):
        parser.add_argument(option, nargs="?", default="", const="")
    # These two limit one run. A repeated run gets its own limits.
    for option in ("--minutes", "--cores"):
        parser.add_argument(option, nargs="?")
    # These three measured again what was measured before. A repeated run continues.
    parser.add_argument("--forcerun", "-R", nargs="*")
    for option in ("--forceall", "--force"):
        parser.add_argument(option, action="store_true")
    # A run with this option or with `--config measure=nothing` only made the report.
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--config", "-C", nargs="*", action="extend", default=[])
    # All words that the parser lacks, such as `-k`, are returned as arguments of the repeated run.
    parsed, arguments = parser.parse_known_args(options)

    # Settings of --config, such as `tree=/usr/src`, override these three options. The last setting counts.
    variables: dict[str, str] = {
        "repository": parsed.repository,
        "tree": parsed.tree,
        "server_log": parsed.server_log,
    }
    settings = []
    for setting in parsed.config:
        key, _, value = setting.partition("=")
        if key in variables:
            variables[key] = _read_setting(value)
        # A setting of DROPPED_KEYS, such as `minutes=9`, would override a variable of the command. The
        # setting of the second condition would measure nothing.
        if key not in DROPPED_KEYS and setting != f"measure={NOTHING}":
            settings.append(setting)
    # --config takes all words behind it, so it comes last.
    if settings:
        arguments += ["--config", *settings]
    return MakeCommand(
        repository=variables["repository"],
        tree=variables["tree"],
        server_log=variables["server_log"],
        study=parsed.study,
        arguments=shlex.join(arguments),
    )


def _read_setting(text: str) -> str:
    """Return the value of a setting of --config, which is YAML: `/srv/x` for `"/srv/x"`, "" for `null`.

    A value that is no text gives "", too: no run has accepted it.
    """
    try:
        value = parse_yaml(text, "--config")
    except UserError:
        return ""
    return value if isinstance(value, str) else ""


def _without_forcing(words: Iterable[str]) -> list[str]:
    """Return the words of a command line without the options -f and -F: `-Fk` becomes `-k`.

    The parser would end the program for `-Fk`, because it lacks some options that can be joined.
    """
    remaining = []
    for word in words:
        if JOINED_OPTIONS.fullmatch(word):
            word = FORCING.sub("", word)
        # `-F` alone has become `-`.
        if word != "-":
            remaining.append(word)
    return remaining
