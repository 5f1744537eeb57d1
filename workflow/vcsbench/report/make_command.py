"""The command of make that repeats a recorded command line.

Pages and the terminal print commands that a reader can paste. They start from the command line of the run, so
that they measure the same study with the same options.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class MakeCommand:
    """The variables of a command of make. A variable that is "" is left out of the command.

    `arguments` are quoted for a shell: configuration files and keys. `baseline` is the name under which `make
    baseline` saves results.
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


def parse_command(command_line: str) -> MakeCommand:
    """Return the command of make that repeats a run, from the recorded command line of that run.

    Example: `vcsbench run --study=builds --minutes=9 -k --config seed=2 tree=/usr/src` gives `make report
    TREE=/usr/src STUDY=builds ARGS='--config seed=2'`. Only the study, the user's inputs (repository, tree,
    log of a server) and the configuration are kept. Other options limit one run, such as --minutes, or
    measure again, such as --forcerun. A line that is empty or has an open quote gives `make report`.
    """
    try:
        command_words = shlex.split(command_line)
    except ValueError:
        command_words = []
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--repository", "--tree", "--server-log", "--study"):
        # A damaged record may lack the value of an option. With nargs="?", it then is `const`, and no error.
        parser.add_argument(option, nargs="?", default="", const="")
    for names in (("--configfile", "--configfiles"), ("--config", "-C")):
        parser.add_argument(*names, nargs="*", action="extend", default=[])
    # The dropped words are the program, its action, and other options.
    parsed, _ = parser.parse_known_args(command_words)

    inputs: dict[str, str] = {
        "repository": parsed.repository,
        "tree": parsed.tree,
        "server_log": parsed.server_log,
    }
    settings = []
    for setting in parsed.config:
        key, _, value = setting.partition("=")
        # `tree=/usr/src` overrides the option --tree. It becomes the variable TREE, so it is no setting any
        # more (DROPPED_KEYS). Of several values, the last one counts.
        if key in inputs:
            inputs[key] = _read_setting(value)
        # With the setting `measure=nothing`, a repeated run would measure nothing.
        if key not in DROPPED_KEYS and setting != f"measure={NOTHING}":
            settings.append(setting)
    arguments = []
    if parsed.configfile:
        arguments += ["--configfile", *parsed.configfile]
    if settings:
        arguments += ["--config", *settings]
    return MakeCommand(
        repository=inputs["repository"],
        tree=inputs["tree"],
        server_log=inputs["server_log"],
        study=parsed.study,
        arguments=shlex.join(arguments),
    )


def _read_setting(text: str) -> str:
    """Return the value of a setting of --config, which is YAML: `/srv/x` for `"/srv/x"`.

    A value that is no text, such as `null`, gives "".
    """
    try:
        value = parse_yaml(text, "--config")
    except UserError:
        return ""
    return value if isinstance(value, str) else ""
