"""Define studies: one published benchmark each, a file in config/studies (study_reader reads it)."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Required, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from typing_extensions import TypedDict  # in Python 3.11, typing has no docstrings for pydantic

from vcsbench.config.models import (
    MetricName,
    Model,
    Names,
    Text,
    Value,
    Values,
    check_words,
    defined_in,
    definition,
    exactly_one,
    fits_pattern,
    former,
    key,
    known_metric_of_table,
    unique,
    without_nul,
)
from vcsbench.errors import UserError
from vcsbench.metrics import COUNTS
from vcsbench.programs import BUILD_PROGRAMS

# Columns of the measurements that tables may have rows by.
RUN_COLUMNS = (
    *("run", "round", "copy", "host", "scale"),
    *("storage_kind", "client_version", "server_version"),
)
# The words of each command, and the words of each kind of `input` and `output`, as Subject.words() has them.
# Those of LISTS stand for several arguments.
WORDS = (*BUILD_PROGRAMS, "svnadmin_args", "load_args", "python", "built")
SUBJECT_WORDS = {
    "repository": ("repository", "url", "tree", "folder", "busy_file", "last"),
    "committed_repository": ("repository", "url", "tree", "folder", "busy_file", "last"),
    "dump": ("dump", "load_options"),
    "tree": ("source", "store", "store_url"),
    "target": ("target",),
    "fresh_repository": ("fresh",),
    "working_copy": ("working_copy", "pristine_options"),
    "changed_working_copy": ("working_copy",),
    "built_tree": ("target",),
    "git_repository": ("repository", "url", "branch", "busy_file", "quiet_file"),
    "git_clone": ("clone",),
    "git_checkout": ("checkout",),
    "hg_checkout": ("checkout",),
    "fossil_repository": ("repository", "url", "tree", "folder", "busy_file", "last", "trunk"),
    "fossil_checkout": ("checkout",),
    "git_pushed": ("clone", "push_url"),
}
LISTS = {*WORDS, "program", "load_options", "pristine_options"} - {"built"}

AxisName = Annotated[
    str,
    StringConstraints(max_length=100),
    fits_pattern("[a-z][a-z0-9_]*", "have a to z, digits and `_` only, and begin with a letter"),
]
AxisValue = Annotated[
    str,
    StringConstraints(max_length=200),
    fits_pattern(
        # `+` is for svn+ssh.
        "[A-Za-z0-9][A-Za-z0-9._+-]*( [A-Za-z0-9._+-]+)*",
        "have letters (a to z), digits, `.`, `_`, `+` and `-` only, single spaces between words, and begin "
        "with a letter or digit",
    ),
]
CommandName = AxisValue
AxisValueList = Annotated[list[AxisValue], Field(min_length=1), AfterValidator(unique)]
AxisOfStudy = Annotated[Text, defined_in("axes", "the study has no axis")]
TableOfStudy = Annotated[Text, defined_in("tables", "the study has no table")]
EnvironmentName = Annotated[
    str,
    fits_pattern(
        "[A-Za-z_][A-Za-z0-9_]*", "have letters, digits and `_` only, and begin with no digit"
    ),
]
Statistic = Literal["median", "best", "worst"]
InputName = Literal[
    "repository", "committed_repository", "dump", "tree", "git_repository", "fossil_repository",
]  # fmt: skip
OutputName = Literal[
    "target", "fresh_repository", "working_copy", "changed_working_copy", "built_tree", "git_clone",
    "git_checkout", "git_pushed", "hg_checkout", "fossil_checkout",
]  # fmt: skip
ChangeName = Literal["one-file", "thousand-files", "large-binary"]
# The outputs that are older than the repository, or are behind it after a push.
OLDER_OUTPUTS = (
    *("working_copy", "git_clone", "git_checkout", "git_pushed", "hg_checkout", "fossil_checkout"),
)
StoreName = Literal["git", "hg", "svn", "brz", "fossil", "one_file", "pack"]
StrategyName = Literal["start", "copytree", "naive", "rename", "start_breezy", "transform"]
# The values of the axis `access` without a server; "" is a command that reads no repository.
WITHOUT_SERVER = frozenset(["file", ""])
WorkName = Literal[
    "log", "printed_counts", "tree", "trees", "dump", "repository", "stdout", "built_tree", "verified",
    "commit", "unchecked", "opaque", "git_clone", "git_partial_clone",
]  # fmt: skip


# The commands that the log of a server tells apart (sources/server_log.py).
LoggedName = Literal[
    "checkout-or-export", "update", "log", "list", "commit", "cat", "blame", "diff", "status", "lock",
    "unlock", "replay",
]  # fmt: skip


def _environment_value(text: str) -> str:
    return check_words(without_nul(text), ["run"])


@definition
class TrafficDefinition(TypedDict, total=False):
    """The key `traffic` of a command: many clients send requests to one server."""

    seconds: Required[Annotated[float, Field(gt=0, le=3600)]]
    """How long new requests start. Those that run at the end are awaited, and count."""
    commit: Text
    """The request of a committer, to `input: committed_repository`. {client} is its number, {change} a file
    of 1 KiB whose content is new in each request. Needed for `committers` above 0."""


class Command(Model):
    argv: Text
    """The timed command. Its {words} are the study's axes, programs of a build ({svn}, {git}, ...), {python},
    the options of the server configuration ({svnadmin_args}, {load_args}), and those of the keys below."""
    stdin: Text | None = None
    """A file for the command's standard input, with the same {words}."""
    environment: (
        dict[EnvironmentName, Annotated[str, AfterValidator(_environment_value)]] | None
    ) = None
    """Additional variables of its environment. {run} is a private folder of the cell-round."""
    input: InputName | None = key(None, was="reads")
    """The kind of subject that the command reads (table in docs/study-keys.md)."""
    output: OutputName | None = key(None, was="writes")
    """The kind of subject that it writes (table in docs/study-keys.md)."""
    output_location: Literal["auto", "storage", "scratch"] | None = key(None, was="targets")
    """The place that it writes to, instead of the configuration's."""
    revisions: int | None = key(None, ge=0, lt=1 << 31)
    """The last revision to dump ({last}), counted at scale 1. At a smaller scale it is multiplied by it. It
    is at most the youngest."""
    revisions_behind: int | None = key(None, was="behind", ge=0, lt=1 << 31)
    """A clean working copy exists before each run, this many revisions behind the youngest, counted at scale
    1. At a smaller scale the number is multiplied by it. Default: no working copy. For a clone of git it is
    the number of commits, at most half of the history."""
    scale_revisions: bool | None = None
    """false: `revisions`, `revisions_behind` and the files of `change: thousand-files` are counted as they
    are, at any scale."""
    change: ChangeName | None = None
    """What a command commits. one-file: a line in one file. thousand-files: the same in 1,000 files, counted
    at scale 1, some of them new if the tree has too few. large-binary: a new file of 48 MiB."""
    store: StoreName | None = None
    """For `input: tree`, the store that holds the tree, a class in workflow/vcsbench/subjects/tree_stores.py.
    Default: a folder of files."""
    program: StrategyName | None = None
    """A strategy in workflow/vcsbench/subjects/strategies.py, which {program} runs with {python}."""
    needs: list[Text] | None = None
    """Further requirements: programs, those that set-up builds ({built} is their folder), or Python modules,
    `python3:NAME`. A cell that lacks one is skipped."""
    fixed_cost: bool | None = None
    """false for a command that fails on an empty repository: its fixed cost is not measured. A commit needs
    false: the shortest one is a commit, too."""
    clones: bool | None = None
    """The command clones files; where the file system cannot, the cell is skipped."""
    reference_only: bool | None = key(None, was="choice")
    """true for a command that is only compared with; advice leaves it out."""
    traffic: TrafficDefinition | None = None
    """Many clients at once (docs/many-clients.md): `argv` is then the request of a reader, which prints the
    same each time. The axes `readers`, `committers` and `arrival` have their numbers. The run takes
    `seconds`, so its elapsed time is in no table; its metrics are throughput and latencies."""
    logged_as: LoggedName | None = None
    """The command in a server's log (`server_log`) that this command stands for. Several commands of one
    name share its weight."""
    measure_sync: bool | None = key(None, was="until_written")
    """After each timed run, the duration of a sync of the file system is measured (on_device_s)."""
    warmup: int | None = key(None, ge=0, le=1000)
    """How many runs do not count, instead of the cache state's number."""
    runs: int | None = key(None, ge=1, le=1000)
    """Timed runs per cell and round, instead of the configuration's."""
    work: WorkName
    """How the work of the command is compared (table in docs/study-keys.md). Only cells that did the same
    work are compared."""
    inapplicable_axes: list[AxisOfStudy] | None = key(None, was="without")
    """The axes that do not apply to the command."""
    restrict_to: dict[AxisOfStudy, Values] | None = key(None, was="only")
    """The values of axes that it is measured with; it has no cells with others."""
    defaults: dict[str, str] | None = key(None, was="held")
    """As the study's `defaults`, for this command. `cache: series` runs it several times in a row against one
    server, starting with cold caches (for a command without the axis `cache`)."""
    caveat: Text | None = None
    """A sentence that the tables and the report carry."""

    @model_validator(mode="after")
    def _check_use_of_keys(self) -> Self:
        """Return the command. Raise ValueError for a key without the part of the command that uses it."""
        # The first and the last backtick are added below.
        older_outputs = "` or `".join(OLDER_OUTPUTS)
        # `revisions` is the last revision of a dump, and the value of the word {last}.
        uses_last = self.input == "dump" or "{last}" in f"{self.argv} {self.stdin}"
        # By key: True if the command has a part that uses the key, and this part in words.
        uses = {
            "store": (self.input == "tree", "`input: tree`"),
            "program": ("{program}" in self.argv, "`{program}`"),
            "revisions_behind": (self.output in OLDER_OUTPUTS, f"`output: {older_outputs}`"),
            "output_location": (self.output is not None, "`output`"),
            "revisions": (uses_last, "`{last}` or `input: dump`"),
        }
        for name, (is_used, part) in uses.items():
            is_set = getattr(self, name) is not None
            if is_set and not is_used:
                raise ValueError(f"has `{name}` without {part}. Add that, or remove `{name}`.")
        self._check_keys_of_commit()
        return self

    def _check_keys_of_commit(self) -> None:
        """Raise ValueError for a commit that lacks one of the five keys that a commit needs.

        A command is a commit if it has one of the three keys that only commits have, such as `work: commit`.
        """
        # By key: True if the command has it. Only commits have these three.
        keys_of_commits_only = {
            "output: changed_working_copy": self.output == "changed_working_copy",
            "work: commit": self.work == "commit",
            "change": self.change is not None,
        }
        present = [name for name, is_set in keys_of_commits_only.items() if is_set]
        if not present:
            return
        # Other commands may have the last two. The fixed cost of a command is its time without work, and even
        # the shortest commit has work. So the fixed cost of a commit cannot be measured.
        needed_keys = {
            **keys_of_commits_only,
            "input: committed_repository": self.input == "committed_repository",
            "fixed_cost: false": self.fixed_cost is False,
        }
        for name, is_set in needed_keys.items():
            if not is_set:
                raise ValueError(f"has `{present[0]}` without `{name}`. A commit needs both.")


@definition
class MeasureDefinition(TypedDict):
    """The key `how_to_measure` of a question."""

    command: Annotated[Text, former("type")]
    """The command to type."""
    note: Annotated[Text, former("says")]
    """Its effect."""


@definition
class QuestionDefinition(TypedDict, total=False):
    """A question that readers have to decide. workflow/report/words.yaml has the actions."""

    question: Required[Annotated[Text, former("ask")]]
    """The question, in the reader's words."""
    axis: AxisOfStudy
    """The axis of the question, if its key is another name: an axis may have several questions."""
    where: Annotated[dict[AxisOfStudy, Value | Values], Field(min_length=1)]
    """The cases of the question: axes with a value or a list of values (default: all)."""
    cost: bool
    """Ask for the cost of each value against the baseline of the table, for requirements such as https. The
    answer names the cost and recommends nothing."""
    doubles: MetricName
    """Ask for the number of clients from which this latency is at least twice that of the fewest clients. The
    axis has numbers of clients, and a table compares them."""
    yes_value: Annotated[Text, former("yes")]
    """The value of the answer "yes" (default: the answer names a value)."""
    values: Annotated[list[Text], Field(min_length=2), AfterValidator(unique), former("between")]
    """The values to choose from (default: all)."""
    aggregate: Annotated[bool, former("overall")]
    """Answer over all cells: in how many a value is better, and the geometric mean. For a choice that covers
    all cells, for example a build."""
    why: Text
    """The cause of the effects: how the values differ in what they do, in sentences below the answer."""
    words: Text
    """The entry of words.yaml with the actions (default: the axis)."""
    next_to: Annotated[dict[MetricName, Text], Field(min_length=1)]
    """Other metrics by which the card answers as well, each with those for whom it counts: `server_cpu_s: a
    server with many clients`. A table has to compare the axis by this metric."""
    start: Annotated[list[Text], Field(min_length=1), AfterValidator(unique)]
    """The values that readers start from. Gains are over the first of them that is measured (default: the
    baseline of the table)."""
    how_to_measure: Annotated[MeasureDefinition, former("measure")]
    """The command to type if the grid compares no two of its values."""


@definition
class ExampleRow(TypedDict, total=False):
    """A row of an example."""

    table: TableOfStudy
    """The table that has its numbers (default: that of the example)."""
    where: dict[AxisOfStudy, Value]
    """The values that its cells have, next to those of all cells of the example."""


@definition
class ExampleDefinition(TypedDict, total=False):
    """A table at the head of a page, such as a server before and after changes measured together."""

    table: Required[TableOfStudy]
    """The table that has the numbers. It has a `metric`."""
    where: dict[AxisOfStudy, Value]
    """The values that all cells of the example have."""
    columns: Required[Annotated[dict[AxisOfStudy, Names], Field(min_length=1, max_length=1)]]
    """One axis with the values across the top, such as `command: [log, export]`."""
    rows: Required[Annotated[dict[Text, ExampleRow], Field(min_length=2)]]
    """Its rows by their names. The first one is the state before all changes."""


class Published(Model):
    numbers: Text | dict[str, dict[AxisOfStudy, str]]
    """A file in config/published with the axes, and metrics by their names, as columns; or, by file, the
    values of axes that it has no column for."""
    unmeasured_values: dict[AxisOfStudy, Values] = key({})
    """By axis, the values of the published numbers that are not measured here."""
    findings: list[Text] | None = key(None, min_length=1)
    """The names of the study's findings in findings.yaml (default: its own)."""
    scale: float = key(gt=0, le=1)
    """The share of the named repositories that the study measured (1: all)."""
    size: str = ""
    """The repositories or trees that the study measured, with their sizes."""
    revisions: dict[Text, Annotated[int, Field(ge=1)]] = key({})
    """The revisions of each repository that the study measured, by the names used here."""
    files: dict[Text, Annotated[int, Field(ge=1)]] = key({})
    """The files of the tree of each repository that the study measured, by the names used here."""
    limits: dict[Text, Annotated[int, Field(ge=1)]] = key({})
    """By command, the most revisions that it reads, at any scale: 20000 for `svn log --limit 20000`."""
    history: Literal["", "real", "generated"] = ""
    """Whether the repositories have real histories (default: not published)."""
    subversion: Annotated[str, fits_pattern("([0-9]+[.][0-9]+)?", "be two numbers and a dot")] = ""
    """The version of Subversion that the study measured, such as 1.9."""
    storage: Literal["", "spinning disk", "SSD", "RAM"] = ""
    """The kind of storage that the study measured on."""
    server: Literal["", "another machine"] = ""
    """Where the server was (default: as measured here)."""
    machine: Text
    """The machine of the study, in a line."""
    system: Literal["", "Linux", "Windows"] = ""
    """The operating system of the study (default: not published)."""
    rounds: int = key(ge=1, le=10_000)
    """How often it repeated each measurement."""


@definition
class ComparisonDefinition(TypedDict, total=False):
    """The key `compare` of a table. `candidates` are resolved (axes.resolved_tables), otherwise "rest"."""

    axis: Required[AxisOfStudy]
    """The compared axis."""
    baseline: Required[Text]
    """The value in the numerator; on an axis with `builds`, `formats` or the like, `first` is the first of
    them."""
    candidates: Required[Names | Literal["rest"]]
    """The values in the denominator, one row each. `rest` is all but the first."""
    metric: MetricName
    """The metric that is divided (default: elapsed_s). Counts of work have no noise if all rounds agree."""


@definition
class TableDefinition(TypedDict, total=False):
    """A table of a study."""

    metric: Annotated[Text, AfterValidator(known_metric_of_table)]
    """The metric of the table, by its name in workflow/vcsbench/metrics.py."""
    reduce: Statistic
    """How the runs of a cell are aggregated, within each round and then over the rounds (default: geometric
    mean; of published numbers: median). The metric defines which of two values is better."""
    where: Annotated[dict[AxisOfStudy, Value | Values], Field(min_length=1)]
    """The cells of the table: axes with a value or a list of values (default: all)."""
    over: AxisOfStudy
    """An axis whose values are numbers; the table's chart has the metric over them."""
    each: Annotated[list[MetricName], Field(min_length=1), AfterValidator(unique)]
    """For the metric `counts`: the metrics side by side, as `count` in the table's rows or columns."""
    by: Annotated[list[Text], AfterValidator(unique)]
    """Further columns that are used like axes in `rows` or `columns`: run, round, copy, host, scale,
    storage_kind, client_version or server_version of the measurements, or any of the published numbers. Rows
    that differ in other columns are aggregated."""
    compare: ComparisonDefinition
    """The compared axis: value = 100 * (metric(baseline) / metric(candidate) - 1)."""
    rows: Required[Annotated[list[Text], AfterValidator(unique)]]
    """The axes (or `candidate`) down the side of the report's grid."""
    columns: Required[Annotated[list[Text], AfterValidator(unique)]]
    """The axes across its top."""
    published: bool
    """false if the published numbers have nothing for the table."""


def _with_counts(table: TableDefinition) -> TableDefinition:
    """Return the table. Raise ValueError if it has only one of `each` and the metric `counts`."""
    if ("each" in table) != (table.get("metric") == COUNTS):
        raise ValueError(
            f"needs both `metric: {COUNTS}` and `each`, or neither. Add or remove one."
        )
    return table


def _with_two_sides(table: TableDefinition) -> TableDefinition:
    """Return the table. Raise ValueError if it compares a value with itself, or limits the compared axis."""
    if "compare" in table:
        compare = table["compare"]
        # `rest` never has the first value, which is the baseline.
        if compare["candidates"] != "rest" and compare["baseline"] in compare["candidates"]:
            raise ValueError("`compare.candidates` has the baseline. Remove it.")
        # `where` would leave out some of the compared values.
        if compare["axis"] in table.get("where", {}):
            raise ValueError(f"`where.{compare['axis']}`: the table compares this axis. Remove it.")
    return table


CheckedTable = Annotated[
    TableDefinition,
    exactly_one("metric", "compare"),
    AfterValidator(_with_counts),
    AfterValidator(_with_two_sides),
]


class StudyFile(Model):
    """The keys of config/studies/<name>.yaml."""

    title: Text
    """The heading of the study's report."""
    source: Text
    """The source of the study, and the machine that it ran on."""
    authors: list[Text] = key([])
    """Its authors, as they are cited; leave it out if unknown."""
    date: Annotated[
        str, fits_pattern("[0-9]{4}(-[0-9]{2}){0,2}", "be as 2014, 2014-07 or 2014-07-31")
    ] = ""
    """When it was published: a year, a month or a day, in quotation marks."""
    url: Annotated[str, fits_pattern("https?://.+", "begin with http:// or https://")] = ""
    """Where it was published."""
    axes: dict[AxisName, AxisValueList | Text] = key(min_length=1)
    """The dimensions of the grid, in the order of a cell's path. Each has its values, or a word for names
    that are defined elsewhere (last table in docs/study-keys.md)."""
    commands: dict[CommandName, Command] = key({})
    """The commands; a study without any has published numbers only."""
    defaults: dict[str, str] = key({}, was="held")
    """The value of axes that the study does not have: a format, a packing (unless the repository's definition
    has one), a server configuration."""
    block: list[AxisOfStudy] = key([])
    """The cells of a round that agree on these axes run next to each other."""
    variance_group: list[AxisOfStudy] = key([], was="noise_class")
    """Cells that agree on these axes scatter alike; some of each class are measured twice (`duplicates`)."""
    scenario_axes: Annotated[list[AxisOfStudy], AfterValidator(unique)] = key([], was="given")
    """Axes such as command, repository and access. Advice is given for each of their values, in this order,
    and chooses among the values of all other axes. A question may still compare accesses."""
    questions: Annotated[dict[AxisName, QuestionDefinition], Field(min_length=1)] = key({})
    """What readers have to decide, by axis, or by a name with the key `axis`: each is a card at the head of
    the report, in this order. Other choices have a card after them."""
    examples: dict[Text, ExampleDefinition] = key({})
    """Tables at the head of the page, by their titles."""
    carries_over: list[Text] = key([])
    """Sentences at the head of the page: which results hold on other machines, and which do not."""
    leaves_out: Text = ""
    """What readers may look for here, and this study does not measure, with the study that does: a sentence
    at the head of the page."""
    trace_syscalls: dict[AxisOfStudy, Values] | None = key(None, was="count_calls")
    """The cells whose system calls are counted, in a run of their own under strace, by the values of axes
    (`{}`: all). Cells that differ only in the state of caches are counted once."""
    featured_tables: Annotated[list[TableOfStudy], AfterValidator(unique)] = key([], was="lead")
    """The tables that come first on the study's page, with their charts."""
    decides_from_s: float = key(0.0, ge=0, le=60)
    """A comparison of elapsed times decides only if its slower side takes this many seconds. A shorter one is
    too small to compare."""
    published: Published | None = None
    """The published numbers and their conditions."""
    tables: dict[str, CheckedTable] = key(min_length=1)
    """The tables, by name; each has a `metric` or compares two values of an axis."""


class Study(StudyFile):
    """The content of a study's file, and the name of the file.

    Words among the values of `axes` are resolved by axes.values_of.
    """

    name: str

    @property
    def numbers(self) -> dict[str, dict[str, str]]:
        """Return the files of published numbers, each with the axis values of the whole file."""
        if self.published is None:
            return {}
        numbers = self.published.numbers
        return numbers if isinstance(numbers, dict) else {numbers: {}}

    @property
    def findings(self) -> list[str]:
        """Return the names of the study's findings in findings.yaml, which is its own name by default."""
        if self.published is None or self.published.findings is None:
            return [self.name]
        return self.published.findings

    def axes_of(self, word: str) -> list[str]:
        """Return the axes with the values of a word: `repositories`, `servers`."""
        return [axis for axis, values in self.axes.items() if values == word]

    def axes_with_word(self) -> list[str]:
        """Return the axes with a word for names in the configuration, such as `build: builds`."""
        return [axis for axis, values in self.axes.items() if isinstance(values, str)]

    @property
    def command_axis(self) -> str:
        """Return the axis with the commands as values; "command" for a study without one."""
        axes = self.axes_of("commands")
        return axes[0] if axes else "command"

    def command_name(self, axes: Mapping[str, str]) -> str:
        """Return the name of a cell's command. `axes` has the cell's values: {"command": "log", ...}.

        In a study without an axis of commands, it is the first command, and "" without commands.
        """
        axis = self.command_axis
        return axes.get(axis, "") if axis in self.axes else next(iter(self.commands), "")

    def command(self, axes: Mapping[str, str]) -> Command:
        """Return a cell's command. Raise UserError if it was only published, and is not measured."""
        name = self.command_name(axes)
        if name not in self.commands:
            raise UserError(
                f"config/studies/{self.name}.yaml: `commands` has no {name}: it was published and is not "
                f"measured. Use in `grid.{self.name}` only {', '.join(self.commands)}."
            )
        return self.commands[name]


def path_part(value: str) -> str:
    """Return the part of a cell's path for a value of an axis: `log -v` becomes log-v, and no value -."""
    return re.sub(" +-*", "-", value) or "-"


def axis_values(selected: object) -> list[str]:
    """Return a value, or a list of values, as a list of texts. Files of findings have numbers, too."""
    return [str(value) for value in (selected if isinstance(selected, list) else [selected])]


def matches_cell(
    cell: Mapping[str, str], where: Mapping[str, object], fits_empty: bool = False
) -> bool:
    """Return True if `where` selects a cell: {"format": ["f6", "f7"], "cache": "hot"}.

    Axes that the cell does not have are ignored. An axis that does not apply to the cell has the value "".
    With `fits_empty`, this value fits any selected values, otherwise only "" itself.
    """
    for axis, selected in where.items():
        if axis not in cell:
            continue
        does_not_apply = cell[axis] == ""
        if cell[axis] not in axis_values(selected) and not (fits_empty and does_not_apply):
            return False
    return True
