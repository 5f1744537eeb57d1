"""vcsbench measures which repository format, server and configuration is faster, on this machine."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench import words
from vcsbench.errors import (
    OPTION_BY_KEY,
    UserError,
    accept_all_characters,
    describe_fault,
    printable,
)
from vcsbench.external import is_url, one_line
from vcsbench.records import Recipe, State
from vcsbench.result_paths import CellRound
from vcsbench.run.job import LONG_GRACE_S, exit_on_signals
from vcsbench.run.provenance import TYPED

if TYPE_CHECKING:
    from vcsbench.config.study import Study
    from vcsbench.plan.plan import Plan
    from vcsbench.run.project import Project

ROOT = Path(__file__).resolve().parent.parent.parent
# Exit codes.
EXIT_FAILED, EXIT_MISCONFIGURED = 1, 2
MOST_ROUNDS = 10_000
CORES = re.compile("all|0*[1-9][0-9]{0,4}")
MINUTES = re.compile(r"([1-9][0-9]*|0)?(\.[0-9]+)?")
# Kinds of inputs and outputs for which `show` makes no files ("" is none). It makes a working copy, for
# example.
KINDS_WITHOUT_FILES = frozenset(
    ["", "repository", "git_repository", "fossil_repository", "dump", "target", "fresh_repository"]
)
# The options whose values are paths of the user, and those of them that take several paths.
SEVERAL_PATHS_OPTIONS = ("--configfile", "--configfiles")
PATH_OPTIONS = ("--repository", "--server-log", *SEVERAL_PATHS_OPTIONS)
# Keys of the configuration that the command line overrides: {"minutes": 15.0, "rounds": None}.
Overrides = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Run an action and return its exit code. An error is printed as one sentence."""
    # After a signal, this process exits as a shell does: 130 for Ctrl-C.
    exit_on_signals(lambda number: 128 + number, LONG_GRACE_S)
    # The script vcsbench blocks Ctrl-C (SIGINT), so that none is lost while Python starts.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    accept_all_characters()
    # With `options.forwards`, the words that belong to no option go to Snakemake.
    options, extra_arguments = _parser().parse_known_args(arguments)
    if extra_arguments and not options.forwards:
        unknown = shlex.join(extra_arguments)
        print(f"vcsbench {options.action}: unknown arguments: {unknown}", file=sys.stderr)
        return EXIT_MISCONFIGURED
    try:
        # Reports name this command, and not Snakemake's. Snakemake and its jobs inherit the variable.
        os.environ[TYPED] = shlex.join(["vcsbench", *_with_absolute_paths(arguments)])
        code = _act(options, extra_arguments)
        # Output that cannot be written, for example to a full disk, is an error like an action's.
        _flush_output()
        return code
    except BrokenPipeError:
        # The reader of the output has ended, as in `vcsbench plan | head`. So there is no error to print.
        code = EXIT_FAILED
    except Exception as error:
        print(printable(describe_fault(error)), file=sys.stderr)
        # EXIT_FAILED of `doctor` means that this machine cannot measure all cells.
        code = EXIT_MISCONFIGURED if options.action == "doctor" else EXIT_FAILED
    # After an error, the output of the action may still be in the buffer.
    try:
        _flush_output()
    except OSError:
        # Python flushes the standard output again at its end, and would print a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _with_absolute_paths(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command line with absolute paths, so that they also hold in the checkout.

    Example: `run --repository=x` in /srv becomes `run --repository=/srv/x`. A command line that was typed in
    the checkout stays as it is, and so do targets behind `--`.
    """
    if Path.cwd() == ROOT:
        return list(arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    absolute_words: list[str] = []
    # The path option whose value is the next word, as in `--repository x`; "" if the next word is no path.
    option = ""
    for word in arguments[:end]:
        is_path = option != "" and not word.startswith("-")
        if is_path:
            absolute_words.append(_absolute_path(word))
            # Only after some options, further paths can follow: `--configfile a b`.
            if option not in SEVERAL_PATHS_OPTIONS:
                option = ""
            continue
        # `--repository=x` has the value in the same word.
        name, mark, value = word.partition("=")
        is_path_option = name in PATH_OPTIONS
        if is_path_option and mark:
            word = f"{name}={_absolute_path(value)}"
        absolute_words.append(word)
        option = name if is_path_option and not mark else ""
    return [*absolute_words, *arguments[end:]]


def _absolute_path(text: str) -> str:
    """Return the absolute path of a user's path. A URL stays as it is, and so does an empty text.

    No shell expands the `~` of `--repository=~/project` or of `REPO='~/project'`.
    """
    return text if not text or is_url(text) else os.path.abspath(os.path.expanduser(text))


def _flush_output() -> None:
    # The caller may have closed the standard output.
    if sys.stdout:
        sys.stdout.flush()


def _act(options: argparse.Namespace, extra_arguments: list[str]) -> int:
    """Check the options, run their action in the checkout, and return its exit code.

    `extra_arguments` are for Snakemake. Raise UserError for an option that cannot be used.
    """
    options.others = extra_arguments
    # The user's paths are relative to the current folder, and this process changes to the checkout below.
    for name in ("server_log", "bundle"):
        path = getattr(options, name, None)
        if path:
            setattr(options, name, os.path.abspath(os.path.expanduser(path)))
    if options.repository:
        options.repository = _absolute_path(options.repository)
    options.configfiles = [os.path.abspath(os.path.expanduser(file)) for file in options.configfile]
    # For the actions `baseline` and `bundle`, an empty list means all studies.
    options.studies = [name for name in _study_names(options) if name != "all"]
    _check_options(options)
    # `--config KEY=VALUE` has precedence over an option such as --minutes.
    overrides = {**_option_keys(options), **_config_keys(options.config)}
    os.chdir(ROOT)
    act: Callable[[argparse.Namespace, Overrides], int] = options.act
    return act(options, overrides)


def _check_options(options: argparse.Namespace) -> None:
    """Raise UserError, which names the option, for a value that cannot be used."""
    # Python decodes bytes that are not UTF-8 as U+DC80 to U+DCFF. Snakemake cannot write these characters to
    # its log.
    for word in options.others:
        if re.search("[\udc80-\udcff]", word):
            raise UserError(f"{one_line(word)}: the argument is not UTF-8. Correct it.")
    # An empty value would count as a missing option: `make report REPO=` would measure the default
    # repositories, and not the repository that the user meant.
    for name in ("repository", "tree", "server_log", "study", "minutes"):
        if getattr(options, name) == "":
            option = name.replace("_", "-")
            raise UserError(f"--{option}: is empty. Give a value, or leave it out.")
    all_studies = sorted(file.stem for file in (ROOT / "config" / "studies").glob("*.yaml"))
    for name in options.studies:
        if name not in all_studies:
            raise UserError(
                f"{OPTION_BY_KEY['studies']}: '{one_line(name)}' is no study. Use one of "
                f"{', '.join(all_studies)}, or all."
            )
    if options.minutes is not None:
        _check_minutes(options.minutes)
    # With 0 cores, Snakemake would wait for ever.
    if not CORES.fullmatch(options.cores):
        raise UserError(
            f"{OPTION_BY_KEY['cores']}: '{one_line(options.cores)}' is no number of cores above 0. "
            f"Give one, such as 2, or all."
        )
    if not 1 <= options.round <= MOST_ROUNDS:
        raise UserError(
            f"--round: {one_line(options.round)} is no round. Give one from 1 to {MOST_ROUNDS}."
        )


def _check_minutes(text: str) -> None:
    from vcsbench.config.models import MOST_MINUTES

    # float() accepts more, such as "nan" and "1_0".
    if not MINUTES.fullmatch(text) or not 0 < float(text) <= MOST_MINUTES:
        raise UserError(
            f"{OPTION_BY_KEY['minutes']}: '{one_line(text)}' is no number of minutes above 0 and up to "
            f"{MOST_MINUTES:g}. Give one, such as 15."
        )


def _option_keys(options: argparse.Namespace) -> Overrides:
    """Return the keys of the configuration that options override: {"minutes": 15.0, "rounds": None}."""
    keys: Overrides = {}
    for name in ("repository", "tree", "server_log"):
        if getattr(options, name):
            keys[name] = getattr(options, name)
    studies = _study_names(options)
    if studies:
        keys["studies"] = studies
    if options.minutes:
        keys["minutes"] = float(options.minutes)
        # The configuration may fix the number of rounds, and a run with fixed rounds has no time limit.
        keys["rounds"] = None
    if options.report_only:
        keys["measure"] = "nothing"
    return keys


def _study_names(options: argparse.Namespace) -> list[str]:
    """Return the names in the option --study, which may have `all` among them."""
    return (options.study or "").replace(",", " ").split()


def run(options: argparse.Namespace, overrides: Overrides) -> int:
    """Measure, write the report and print its answers."""
    # Without a target, Snakemake makes its default target `all`.
    return _run_and_report(options, overrides, targets=[])


def check(options: argparse.Namespace, overrides: Overrides) -> int:
    """Measure, write the report, and fail unless all expectations hold."""
    from vcsbench.run.workflow import is_dry_run
    from vcsbench.statistics.check import main as judge

    # The file has the verdict on each expectation. If a file is named, Snakemake does not make its default
    # target `all`, so `all` is named, too.
    if _run_and_report(options, overrides, targets=["all", "results/check.csv"]):
        print("Nothing was checked: the workflow run failed.", file=sys.stderr)
        return EXIT_FAILED
    # A dry run has only listed the jobs.
    return 0 if is_dry_run(options.others) else judge(["results/check.csv"])


def _run_and_report(
    options: argparse.Namespace, overrides: Overrides, targets: Sequence[str]
) -> int:
    """Make the targets by Snakemake, print the answers of the report, and return Snakemake's exit code.

    Snakemake also makes the targets that the user has named.
    """
    # These imports are here, because they take time, and not all actions need them.
    from vcsbench.config.configuration import load_config
    from vcsbench.run.workflow import is_dry_run, run_workflow
    from vcsbench.sources import detect

    if is_url(overrides.get("repository", "")):
        # detect() is called only for its UserError about the URL of a server. The URL may contain a password,
        # so it is refused before Snakemake writes its files.
        detect(overrides["repository"])
    began = time.time()
    arguments = ["--cores", options.cores]
    status = run_workflow(ROOT, overrides, options.configfiles, arguments, options.others, targets)
    # After a dry run, nothing is new. After a signal (128 and more), the user waits for the prompt.
    if status < 128 and not is_dry_run(options.others):
        # If the configuration is wrong, Snakemake has printed the error already.
        with suppress(UserError):
            merged, files = _read_configuration(options, overrides)
            studies = load_config(merged, ROOT, files).studies
            _print_report(status, began, [*studies.values()])
    return status


def published_tables(options: argparse.Namespace, overrides: Overrides) -> int:
    """Compute the tables of the published studies from their published numbers."""
    from vcsbench.run.workflow import run_workflow

    arguments = ["--cores", options.cores]
    overrides = {**overrides, "measure": "nothing"}
    return run_workflow(
        ROOT, overrides, options.configfiles, arguments, options.others, targets=["published"]
    )


def plan(options: argparse.Namespace, overrides: Overrides) -> int:
    """Print what a run does and how long it takes."""
    from vcsbench.forecast.plan_report import describe_plan
    from vcsbench.forecast.trials import BEFORE_SESSION

    project = _open_project(options, overrides)
    # These checks raise the UserErrors that a run would raise, perhaps after minutes. The first use of this
    # property reads and checks the files of expectations.
    _ = project.expectations
    project.check_server_log()
    project.check_machine(BEFORE_SESSION)
    for source in project.used_sources():
        # The estimate is made only for its UserError about a damaged source.
        source.estimate()
    for line in describe_plan(project.plan, project.repositories, project.sampling.spent_s()):
        print(words.wrapped(line), flush=True)
    for study in project.config.studies:
        facts = project.params_of(study).server_log_facts
        if facts:
            print(f"\nWeights of {study}")
        for fact in facts:
            print(words.wrapped(f"  {fact}"))
    return 0


def doctor(options: argparse.Namespace, overrides: Overrides) -> int:
    """Print what this machine can measure, and what it lacks, with remedies."""
    from vcsbench.forecast.doctor import examine_machine

    project = _open_project(options, overrides)
    _ = project.expectations  # reading the property checks their files
    is_able = examine_machine(
        project.plan, project.repositories, lambda line: print(words.wrapped(line), flush=True)
    )
    return 0 if is_able else EXIT_FAILED


def show(options: argparse.Namespace, overrides: Overrides) -> int:
    """Print what a cell does, step by step."""
    # These imports are here, because they take time, and not all actions need them.
    from vcsbench.measure.work import WORK_KINDS
    from vcsbench.run.workflow import checkout_lock

    project = _open_project(options, overrides)
    recipe = _prepared_recipe(project, options)
    # For most kinds of input and output, such as a working copy, _facts_of_processes() makes files.
    makes_files = not {recipe["input"], recipe["output"]} <= KINDS_WITHOUT_FILES
    with ExitStack() as stack:
        if makes_files:
            # Some of these files stay for later runs, which need the modes that a session gives to files.
            os.umask(0o022)
            # A session at the same time would remove the files, or make the same ones. The lock keeps it out.
            stack.enter_context(checkout_lock(ROOT))
        facts_of_processes = _facts_of_processes(recipe, options.round)
    work = WORK_KINDS[recipe["work_kind"]].description
    result_file = CellRound(recipe["study"], recipe["cell"], options.round).export
    facts = [
        *facts_of_processes,
        *_facts_of_state(recipe["state"]),
        ("runs", f"{recipe['runs']} timed by hyperfine"),
        ("work", f"{recipe['work_kind']}: {work}"),
        ("clear caches", recipe["clearing"] or "never"),
        ("result", result_file),
    ]
    width = max(len(name) for name, _ in facts)
    for name, text in facts:
        print(f"{name:<{width}}  {text}")
    return 0


def _facts_of_state(state: State) -> list[tuple[str, str]]:
    """Return the steps of a cache state, and its warm-up runs, in pairs of a moment and a text.

    {"setup": ["start-server"], "prepare": ["restore", "sync"], "warmup": 1, ...} gives [("once",
    "start-server: Start the server, ..."), ..., ("warm-up", "1 run")].
    """
    from vcsbench.measure.cell_setup import STEPS

    steps = {
        "once": state["setup"],
        # Some states have other steps before the first run than before later ones.
        "before the first": state.get("first", []),
        "before each run": state["prepare"],
    }
    facts = []
    for moment, names in steps.items():
        for name in names:
            facts.append((moment, f"{name}: {STEPS[name].description}"))
    if state.get("discard") and not state["warmup"]:
        # The first cold run of a copy fills caches below this system, such as a hypervisor's, and
        # makes later cold runs faster.
        warmup = "the first run of a copy"
    else:
        warmup = words.count_of(state["warmup"], "run")
    return [*facts, ("warm-up", warmup)]


def _facts_of_processes(recipe: Recipe, number: int) -> list[tuple[str, str]]:
    """Return the processes of a round of a cell, and the server's files, in pairs of a name and a text.

    For example: [("cell", "fsfs/log, round 1"), ("command", "svn log ..."), ("server", "svnserve ..."),
    ("files", "config/servers/default/svnserve.args")]. Neither the command nor the server is started.
    """
    from vcsbench.measure.cell_setup import CellSetup
    from vcsbench.programs import server_files
    from vcsbench.storages.workdir import run_folder

    with run_folder(ROOT) as folder, ExitStack() as stack:
        cell = CellSetup(recipe, number, folder, ROOT)
        # check() finds or makes the files whose paths fill_in() puts into the command. discard() also removes
        # those that a failed check() has made.
        for subject in cell.subjects:
            stack.callback(subject.discard)
            subject.check()
        # The command has the address of the server, whose socket is made in the network of the server.
        if cell.networks:
            cell.networks.open(stack)
        cell.fill_in()
        round_name = f"{recipe['study']}/{recipe['cell']}, round {number}"
        if cell.input:
            # With 3 copies of a repository, round 4 uses copy 1. Any other input has the number of the round.
            copy = cell.input.facts().get("copy", number)
            round_name += f" (copy {copy})"
        command = shlex.join(cell.timed.argv)
        if cell.timed.stdin:
            command += f" < {cell.timed.stdin}"
        facts = [("cell", round_name), ("command", command)]
        if cell.server:
            facts.append(("server", shlex.join(cell.server.command())))
    if recipe["server_folder"]:
        files = server_files(Path(recipe["server_folder"]), recipe["access"]["files"])
        facts.append(("files", ", ".join(map(str, files.values()))))
    return facts


def measure(options: argparse.Namespace, overrides: Overrides) -> int:
    """Measure one round of a cell and print its runs; keep no result."""
    from vcsbench.isolation import isolate_network
    from vcsbench.measure.runs import read_export
    from vcsbench.run.cell_job import measure_round
    from vcsbench.run.workflow import checkout_lock

    # Servers run as another user, who reads files that this action makes. Later runs use some of them.
    os.umask(0o022)
    # A session or `make clean` that begins in the meantime would remove the files of this measurement.
    with checkout_lock(ROOT):
        project = _open_project(options, overrides)
        recipe = _prepared_recipe(project, options)
        # As in a workflow run, client and server are in a network of their own, if the recipe requires that.
        isolate_network(recipe)
        measured = measure_round(ROOT, recipe, options.round)
    # The export is in no file, so errors name the cell.
    timed_runs = read_export(options.cell, measured.export)
    for timed, run in zip(timed_runs, measured.context["runs"], strict=True):
        flags = " ".join([*run["flags"], *measured.context["flags"]]) or "none"
        print(f"run {run['run']}: {timed.elapsed_s:.3f} s, flags: {flags}")
        for key, value in run["evidence"].items():
            # A fact that could not be observed here is None or "".
            if value not in (None, ""):
                print(f"  {key}: {value}")
    return 0


def baseline(options: argparse.Namespace, overrides: Overrides) -> int:
    """Save the results as a baseline."""
    from vcsbench.statistics.baseline_comparison import save_baseline

    print("\n".join(save_baseline(options.name, options.studies, Path("results"))))
    print(
        f"To compare with it: `baselines: [{options.name}]` in the configuration, then make report"
    )
    return 0


def bundle(options: argparse.Namespace, overrides: Overrides) -> int:
    """Pack data, configuration and reports into bundles/NAME.tar.gz."""
    from vcsbench.run.bundle import pack

    path = pack(options.name, options.studies, ROOT)
    size_mib = path.stat().st_size / 2**20
    file = path.relative_to(ROOT)
    print(f"packed {path} ({size_mib:.1f} MiB). To import it: make import BUNDLE={file}")
    return 0


def import_bundle(options: argparse.Namespace, overrides: Overrides) -> int:
    """Unpack a bundle into a new folder, and make its reports again."""
    from vcsbench.run import bundle

    if not options.bundle:
        raise UserError(
            f"{OPTION_BY_KEY['bundle']}: none is named. Give its file, such as january.tar.gz."
        )
    print("\n".join(bundle.unpack_bundle(Path(options.bundle), options.name, ROOT)))
    return 0


def clean(options: argparse.Namespace, overrides: Overrides) -> int:
    """Remove results/ and all that vcsbench made on the storages for this checkout."""
    from vcsbench.run.cleaning import clean_checkout

    merged, files = _read_configuration(options, overrides)
    print("\n".join(clean_checkout(merged, ROOT, files)))
    return 0


def _open_project(options: argparse.Namespace, overrides: Overrides) -> Project:
    from vcsbench.run.project import Project

    merged, files = _read_configuration(options, overrides)
    return Project(merged, ROOT, files)


def _prepared_recipe(project: Project, options: argparse.Namespace) -> Recipe:
    """Return the recipe of the named cell. Raise a UserError if its repositories are not prepared."""
    study, path = _find_cell(project.plan, options.cell)
    # A preparation ends with its record, such as results/repositories/disk.json for the copies on a storage.
    for record in project.records(study, path):
        if not (ROOT / record).exists():
            command = shlex.join(["./vcsbench", "run", record, *_session_options(options)])
            raise UserError(
                f"{record}: the repositories of the cell are not prepared. Prepare them: {command}"
            )
    # The recipe is converted to JSON and back, so that it is just what the process of a cell-round reads.
    recipe: Recipe = json.loads(project.plan.recipe_json(study, path))
    return recipe


def _session_options(options: argparse.Namespace) -> list[str]:
    """Return the options with which another command has the same configuration."""
    words_of_session = []
    for name in ("repository", "tree", "server_log", "study"):
        value = getattr(options, name)
        if value:
            words_of_session.append(f"--{name.replace('_', '-')}={value}")
    for name, values in (("--configfile", options.configfiles), ("--config", options.config)):
        if values:
            words_of_session += [name, *values]
    return words_of_session


def _find_cell(plan: Plan, name: str) -> tuple[str, str]:
    """Return the study and the path of a cell, which is named with or without its study.

    `fsfs/log/svn` gives ("fsfs", "log/svn"). Raise UserError if the plan does not measure the cell.
    """
    # The names with a study come first, so that a path with the same text cannot replace one of them.
    key_by_name = {f"{study}/{path}": (study, path) for study, path in plan.cell_by_key}
    for study, path in plan.cell_by_key:
        # A name without a study means the first study that has the cell.
        if path not in key_by_name:
            key_by_name[path] = (study, path)
    # The user may name the folder of the cell's results.
    name = name.removeprefix("results/cells/").strip("/")
    option = OPTION_BY_KEY["cell"]
    if not name:
        example = next(iter(key_by_name), "log/svn")
        raise UserError(f"{option}: none is named. Give one, such as {example}.")
    if name in key_by_name:
        return key_by_name[name]
    for study, grid in plan.grids.items():
        for cell in grid:
            # `skip` is the reason why the cell cannot be measured here.
            if cell.skip and name in (cell.path, f"{study}/{cell.path}"):
                text = f"{name} is skipped on this machine: {cell.skip}. Use another cell."
                raise UserError(f"{option}: {text}")
    # Names count as similar from 0.3 on (1: equal), because a user may know only a part of a name.
    similar = difflib.get_close_matches(name, key_by_name, n=3, cutoff=0.3)
    hint = f"Similar cells: {', '.join(similar)}." if similar else "See results/grid for all cells."
    raise UserError(f"{option}: '{one_line(name)}' is not in the grid. {hint}")


def _read_configuration(
    options: argparse.Namespace, overrides: Overrides
) -> tuple[Overrides, list[Path]]:
    """Return the merged keys of all configuration files and of the command line, and the files."""
    from vcsbench.config.configuration import read_configuration

    files = [ROOT / "config" / "config.yaml", *map(Path, options.configfiles)]
    return read_configuration(files, overrides), files


def _config_keys(pairs: Sequence[str]) -> Overrides:
    """Return the keys that --config overrides: ["rounds=5"] gives {"rounds": 5}."""
    from vcsbench.config.validation import parse_yaml

    keys: Overrides = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name.isidentifier():
            fault = "has no key" if mark else "has no value"
            raise UserError(
                f"--config: {pair!r} {fault}. Write KEY=VALUE, such as --config rounds=5."
            )
        keys[name] = parse_yaml(value, f"--config {name}")
    return keys


def _print_report(status: int, began: float, studies: Sequence[Study]) -> None:
    """Print the answers of the report, and its path; nothing without a report.

    `status` is the exit code of the run, and `began` its start in seconds since 1970. If the run failed and
    did not write the report, print only the path of the older report.
    """
    pages = [Path("reports", f"{study.name}.html") for study in studies]
    if not any(page.exists() for page in pages):
        return
    # The index has links to the pages of several studies.
    report = pages[0] if len(pages) == 1 else Path("reports/index.html")
    is_new = report.exists() and report.stat().st_mtime >= began
    if status and not is_new:
        print(f"The report was not written. That of an earlier workflow run: {report.resolve()}")
        return
    from vcsbench.report.make_command import parse_command
    from vcsbench.report.terminal import format_summaries, read_summaries
    from vcsbench.run.study_params import FINDINGS_FILE

    try:
        # main() has stored the command line that the user typed. Answers print variants of it.
        command = parse_command(os.environ[TYPED])
        summaries = read_summaries(Path("results"), studies, Path(FINDINGS_FILE))
        print("\n".join(format_summaries(summaries, command)))
    except (UserError, OSError) as error:
        print(f"vcsbench: {error}", file=sys.stderr)
    print(f"Report: {report.resolve()}", flush=True)


# The end of the help text of an action that forwards unknown arguments.
FORWARDING = " Other arguments go to Snakemake, such as -n, which lists the jobs only."
# By the names of the actions: their functions, and True if unknown arguments go to Snakemake.
ACTIONS: dict[str, tuple[Callable[..., int], bool]] = {
    "run": (run, True),
    "check": (check, True),
    "published-tables": (published_tables, True),
    "plan": (plan, False),
    "doctor": (doctor, False),
    "show": (show, False),
    "measure": (measure, False),
    "baseline": (baseline, False),
    "bundle": (bundle, False),
    "import": (import_bundle, False),
    "clean": (clean, False),
}


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, with a subcommand for each of ACTIONS.

    The docstring of an action's function is the help text of its subcommand.
    """
    parser = argparse.ArgumentParser(
        prog="vcsbench", description=__doc__, allow_abbrev=False, epilog="See docs/running.md."
    )
    shared = _shared_options()
    subcommands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (act, forwards) in ACTIONS.items():
        summary = act.__doc__ or ""
        description = f"{summary}{FORWARDING}" if forwards else summary
        subcommand = subcommands.add_parser(
            name, help=summary, description=description, parents=[shared], allow_abbrev=False
        )
        # With these defaults, code for all actions can also read the options that an action lacks.
        subcommand.set_defaults(
            act=act, forwards=forwards, minutes=None, cores="all", round=1, report_only=False
        )
        _add_options_of(name, forwards, subcommand)
    return parser


def _shared_options() -> argparse.ArgumentParser:
    """Return a parser of the options that all actions have."""
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add = shared.add_argument
    # An option with one or more values, which may also be repeated.
    several: Overrides = {"nargs": "+", "action": "extend", "default": []}
    files = "files with configuration keys, over config/config.yaml"
    add("--configfile", "--configfiles", metavar="FILE", help=files, **several)
    keys = "configuration keys, over those of all files"
    add("--config", "-C", metavar="KEY=VALUE", help=keys, **several)
    add("--repository", metavar="PATH", help="measure this repository of yours")
    add("--tree", metavar="PATH", help="the tree in that repository, such as trunk")
    add("--server-log", metavar="FILE", help="weigh commands by this log of your server")
    add("--study", metavar="NAME", help="a study, several with commas, or all")
    return shared


def _add_options_of(action: str, forwards: bool, parser: argparse.ArgumentParser) -> None:
    """Add the options that only some actions have. `action` and `forwards` are from ACTIONS."""
    add = parser.add_argument
    if forwards:
        add("--cores", default="all", help="cores for the preparation (default: all)")
    if action in ("run", "check", "plan"):
        add("--minutes", metavar="M", help="how long all workflow runs together may take")
    if action == "run":
        only = "measure nothing: a report of the results that exist"
        add("--report-only", action="store_true", help=only)
    if action in ("show", "measure"):
        add("cell", help="as in the column `cell` of results/grid/<study>.csv")
        add("--round", type=int, default=1, help="the round (default: 1)")
    if action == "import":
        add("bundle", help="the file, such as january.tar.gz")
    if action in ("baseline", "bundle", "import"):
        is_needed = action == "baseline"
        add("--name", default="", required=is_needed, help="a name, such as before-upgrade")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
