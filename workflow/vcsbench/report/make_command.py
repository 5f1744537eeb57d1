"""The command of make that repeats a recorded command line.

Pages and the terminal print commands that a reader can paste. They start from the command line of the run, so
that they measure the same study with the same options.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

from vcsbench.plan.result_state import NOTHING

# The options of `vcsbench run` that are variables of make, by the fields of MakeCommand.
VARIABLE_OPTIONS = {
    "--repository": "repository",
    "--tree": "tree",
    "--server-log": "server_log",
    "--study": "study",
}
# They limit one run. A repeated run gets its own limits.
LIMITING_OPTIONS = ("--minutes", "--cores")
MEASURE_NOTHING = f"measure={NOTHING}"
# A run with one of these only made the report. The repeated command is to measure, so it has none of them.
WITHOUT_MEASURING = (MEASURE_NOTHING, f"--config={MEASURE_NOTHING}", "--report-only")
CONFIG_OPTIONS = ("--config", "-C")


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
        variables = {
            "REPO": self.repository,
            "TREE": self.tree,
            "LOG": self.server_log,
            "STUDY": self.study,
            "ARGS": self.arguments,
            "MINUTES": self.minutes,
            "NAME": self.baseline,
        }
        parts = ["make", target]
        for name, value in variables.items():
            if value:
                parts.append(f"{name}={shlex.quote(value)}")
        return " ".join(parts)

    def with_arguments(self, arguments: str) -> MakeCommand:
        """Return the command with further arguments of Snakemake behind its own."""
        return replace(self, arguments=f"{self.arguments} {arguments}".strip())

    @property
    def configfile_arguments(self) -> str:
        """Return the arguments that name configuration files, such as `--configfile my.yaml`.

        Commands that measure one cell need these files. Other arguments are about a whole run.
        """
        chosen = []
        is_of_configfile = False
        for argument in shlex.split(self.arguments):
            # The option has several values: `--configfile a.yaml b.yaml`. The next option ends them.
            if argument.startswith("-"):
                is_of_configfile = argument.startswith("--configfile")
            if is_of_configfile:
                chosen.append(argument)
        return shlex.join(chosen)


def parse_command(command_line: str) -> MakeCommand:
    """Return the command of make that repeats a command line, without its limits of time and cores.

    Options that make has as variables (VARIABLE_OPTIONS) become variables, all other ones become ARGS.
    Options that suppress the measuring are left out. `vcsbench run --study=builds --minutes=9 -k` gives `make
    report STUDY=builds ARGS=-k`. A command line that is empty or has an unbalanced quote gives `make report`.
    """
    try:
        typed = shlex.split(command_line)
    except ValueError:
        typed = []
    # The program and its action precede the first option: `vcsbench run`, `snakemake`.
    options = dropwhile(lambda word: not word.startswith("-"), typed)
    variables: dict[str, str] = {}
    arguments: list[str] = []
    for word in options:
        option, equals_sign, value = word.partition("=")
        if option in VARIABLE_OPTIONS or option in LIMITING_OPTIONS:
            # `--study=builds` has the value in the same word, `--study builds` in the next one.
            if not equals_sign:
                value = next(options, "")
            if option in VARIABLE_OPTIONS:
                variables[VARIABLE_OPTIONS[option]] = value
        elif word not in WITHOUT_MEASURING:
            arguments.append(word)
    return MakeCommand(arguments=shlex.join(_without_empty_config(arguments)), **variables)


def _without_empty_config(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without a `--config` that has no value: to Snakemake that is an error.

    `--config measure=nothing -k` has become `--config -k`, because `measure=nothing` is not repeated.
    """
    remaining = []
    for position, argument in enumerate(arguments):
        is_last = position + 1 == len(arguments)
        has_value = not is_last and not arguments[position + 1].startswith("-")
        if has_value or argument not in CONFIG_OPTIONS:
            remaining.append(argument)
    return remaining
