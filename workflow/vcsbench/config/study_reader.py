"""Read the file of a study, and check the rules that several of its keys have to keep."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from vcsbench.axis_names import (
    ACCESS_AXIS,
    ARRIVAL_AXIS,
    CLIENTS_AXIS,
    COMMITTERS_AXIS,
    READERS_AXIS,
)
from vcsbench.config.models import check_words, unknown_name
from vcsbench.config.study import (
    LISTS,
    SUBJECT_WORDS,
    WITHOUT_SERVER,
    WORDS,
    Command,
    Study,
    StudyFile,
    TableDefinition,
    axis_values,
    path_part,
)
from vcsbench.config.validation import read_mapping, validate
from vcsbench.errors import UserError
from vcsbench.metrics import COUNT
from vcsbench.programs import WORD

# The axes of commands with the key `traffic`, and the words of a committer's request.
TRAFFIC_AXES = (READERS_AXIS, COMMITTERS_AXIS, ARRIVAL_AXIS)
TRAFFIC_WORDS = ("client", "change")


def load_study(path: str | Path) -> Study:
    """Read and check a study's file. Raise UserError with the file and the key."""
    path = Path(path)
    file = validate(read_mapping(path), StudyFile, lambda _keys: str(path))
    _check_path_parts(path, file)
    _check_questions(path, file)
    _check_named_values(path, file)
    for name, table in file.tables.items():
        _check_columns(path, file, name, table)
    study = Study.model_construct(**dict(file), name=path.stem)
    for name, command in study.commands.items():
        _check_command(path, study, name, command)
    return study


def _check_path_parts(path: Path, file: StudyFile) -> None:
    """Raise UserError for two values that would have the same path in results.

    A blank becomes a hyphen in a path, so `log -v` and `log-v` both become log-v. The results of one would
    overwrite the other's results.
    """
    lists = {"commands": list(file.commands)}
    for axis, values in file.axes.items():
        # A word stands for values that are defined elsewhere.
        if isinstance(values, list):
            lists[f"axes.{axis}"] = values
    for key_of_list, values in lists.items():
        value_by_part: dict[str, str] = {}
        for value in values:
            part = path_part(value)
            if part in value_by_part:
                raise UserError(
                    f"{path}: `{key_of_list}`: {value_by_part[part]!r} and {value!r} have one path in "
                    f"results, {part}. Rename one of them."
                )
            value_by_part[part] = value


def _check_questions(path: Path, file: StudyFile) -> None:
    """Raise UserError for a question that is about no axis of the study."""
    for name, question in file.questions.items():
        unknown = unknown_name([question.get("axis", name)], file.axes)
        if unknown:
            raise UserError(f"{path}: `questions.{name}`: the study has no axis {unknown}")


def _check_named_values(path: Path, file: StudyFile) -> None:
    """Raise UserError for a value that its axis does not have."""
    for key_of_values, axis, values in _named_values(file):
        known = list(file.commands) if file.axes[axis] == "commands" else file.axes[axis]
        # Values that are defined elsewhere cannot be checked here.
        if not isinstance(known, list):
            continue
        # "": the axis does not apply.
        unknown = unknown_name([value for value in values if value], known)
        if unknown:
            raise UserError(f"{path}: `{key_of_values}`: the axis has no value {unknown}")


def _check_columns(path: Path, file: StudyFile, name: str, table: TableDefinition) -> None:
    """Raise UserError if `rows`, `columns` or `over` of a table names a column that the table does not have.

    A table has the axes of the study, and the columns in `by`. In a table that compares, `candidate` takes
    the place of the compared axis. With `each`, it has `count`.
    """
    known = list(file.axes)
    if "compare" in table:
        known.remove(table["compare"]["axis"])
        known.append("candidate")
    if "each" in table:
        known.append(COUNT)
    known += table.get("by", [])
    sides = {"rows": table["rows"], "columns": table["columns"]}
    if "over" in table:
        sides["over"] = [table["over"]]
    for side, names in sides.items():
        unknown = unknown_name(names, known)
        if unknown:
            raise UserError(f"{path}: `tables.{name}.{side}`: the table has no column {unknown}")


def _check_command(path: Path, study: Study, name: str, command: Command) -> None:
    """Raise UserError for a command that cannot be run, or that has a key without effect.

    Its templates must have known words only. If it may be measured over a server, it must use {url}, because
    otherwise the client would not talk to the server at all.
    """
    templates = {"argv": command.argv, "stdin": command.stdin or ""}
    if command.traffic is not None:
        templates["traffic.commit"] = command.traffic.get("commit", "")
    for key_of_template, template in templates.items():
        further_words = TRAFFIC_WORDS if key_of_template == "traffic.commit" else ()
        try:
            _check_template(template, command, study, further_words)
        except ValueError as error:
            raise UserError(f"{path}: `commands.{name}.{key_of_template}`: {error}") from None
    _check_traffic(path, study, name, command)
    if _needs_url(study, command) and not _uses_url(command):
        raise UserError(
            f"{path}: `commands.{name}.argv`: the axis `{ACCESS_AXIS}` applies, and the command has no "
            f"{{url}}, so a server would do nothing. Use {{url}}, or add `{ACCESS_AXIS}` to "
            f"`inapplicable_axes`."
        )
    for key_without_effect, remedy in _keys_without_effect(study, command):
        raise UserError(f"{path}: `commands.{name}.{key_without_effect}`: has no effect{remedy}")


def _check_traffic(path: Path, study: Study, name: str, command: Command) -> None:
    """Raise UserError for a command whose keys or axes do not fit to its key `traffic`, or to a lack of it.

    The axes of TRAFFIC_AXES have an effect on commands with `traffic` only, and the axis `clients` on others.
    Without this check, a cell's label could have another number of clients than its run.
    """
    axes = set(study.axes).difference(command.inapplicable_axes or ())
    # The errors add the closing backquote, after the name of a key.
    place = f"{path}: `commands.{name}"
    without_effect = (CLIENTS_AXIS,) if command.traffic else TRAFFIC_AXES
    for axis in without_effect:
        if axis in axes:
            kind = "without" if command.traffic else "with"
            raise UserError(
                f"{place}.inapplicable_axes`: lacks `{axis}`, which has an effect on commands {kind} "
                f"`traffic` only. Add it."
            )
    if command.traffic is None:
        return
    if "commit" in command.traffic and command.input != "committed_repository":
        raise UserError(
            f"{place}.input`: must be `committed_repository`, because committers write to it. Set it."
        )
    if command.stdin is not None:
        raise UserError(f"{place}.stdin`: has no effect on a command with `traffic`. Remove it.")
    # The numbers of committers in the cells of this command: values of the axis, or otherwise the default.
    if COMMITTERS_AXIS in axes:
        values = (command.restrict_to or study.axes).get(
            COMMITTERS_AXIS, study.axes[COMMITTERS_AXIS]
        )
    else:
        defaults = {**study.defaults, **(command.defaults or {})}
        values = [defaults.get(COMMITTERS_AXIS, "0")]
    has_committers = any(value != "0" for value in values)
    if has_committers and "commit" not in command.traffic:
        raise UserError(
            f"{place}.traffic.commit`: is missing, and there are {COMMITTERS_AXIS}. Add it, or measure with "
            f'`{COMMITTERS_AXIS}: "0"` only.'
        )


def _needs_url(study: Study, command: Command) -> bool:
    """Return True if a command may be measured over a server."""
    inapplicable_axes = command.inapplicable_axes or []
    if ACCESS_AXIS not in study.axes or ACCESS_AXIS in inapplicable_axes:
        defaults = {**study.defaults, **(command.defaults or {})}
        return defaults.get(ACCESS_AXIS, "") not in WITHOUT_SERVER
    values: str | list[str] = study.axes[ACCESS_AXIS]
    if command.restrict_to is not None:
        values = command.restrict_to.get(ACCESS_AXIS, values)
    # A word stands for accesses that are defined elsewhere, with servers among them.
    return isinstance(values, str) or not WITHOUT_SERVER.issuperset(values)


def _uses_url(command: Command) -> bool:
    # A working copy that exists before the run has the URL, as a checkout of Fossil has.
    exists = command.revisions_behind is not None or command.change is not None
    has_url = exists and ("{working_copy}" in command.argv or "{checkout}" in command.argv)
    return (
        has_url
        or "{url}" in f"{command.argv} {command.stdin}"
        or "{push_url}" in f"{command.argv} {command.stdin}"
    )


def _keys_without_effect(study: Study, command: Command) -> Iterator[tuple[str, str]]:
    """Yield keys that have no effect in a command of this study, each with the end of a sentence.

    This text follows "has no effect", and has the reason and the remedy. For example ("clones", " without the
    axis `filesystem`. Add the axis, or remove the key.").
    """
    axes = set(study.axes).difference(command.inapplicable_axes or [])
    has_filesystem = "filesystem" in axes.union(study.defaults, command.defaults or {})
    if command.clones is not None and not has_filesystem:
        yield "clones", " without the axis `filesystem`. Add the axis, or remove the key."
    if command.output_location is not None and has_filesystem:
        yield "output_location", ": the command writes to its `filesystem`. Remove it."
    for key_of_axes in ("inapplicable_axes", "restrict_to"):
        if study.command_axis in (getattr(command, key_of_axes) or ()):
            yield key_of_axes, f" on the axis `{study.command_axis}`. Remove it there."


def _named_values(file: StudyFile) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each key of a study's file that names values of an axis, with the axis and these values.

    For example ("tables.speed.where.format", "format", ["f6", "f7"]).
    """
    for name, question in file.questions.items():
        axis = question.get("axis", name)
        yield f"questions.{name}.values", axis, question.get("values", [])
        yes = [question["yes_value"]] if "yes_value" in question else []
        yield f"questions.{name}.yes_value", axis, yes
        for other, selected in question.get("where", {}).items():
            yield f"questions.{name}.where.{other}", other, axis_values(selected)
    for name, table in file.tables.items():
        if "compare" in table:
            compare = table["compare"]
            yield f"tables.{name}.compare.baseline", compare["axis"], [compare["baseline"]]
            if compare["candidates"] != "rest":
                candidates = list(compare["candidates"])
                yield f"tables.{name}.compare.candidates", compare["axis"], candidates
        for axis, selected in table.get("where", {}).items():
            yield f"tables.{name}.where.{axis}", axis, axis_values(selected)
    for name, command in file.commands.items():
        for axis, selected in (command.restrict_to or {}).items():
            yield f"commands.{name}.restrict_to.{axis}", axis, selected
    for axis, selected in (file.trace_syscalls or {}).items():
        yield f"trace_syscalls.{axis}", axis, selected
    if file.published is not None and isinstance(file.published.numbers, dict):
        for name, fixed in file.published.numbers.items():
            for axis, value in fixed.items():
                yield f"published.numbers.{name}.{axis}", axis, [value]


def _check_template(
    template: str, command: Command, file: StudyFile, further_words: Sequence[str] = ()
) -> None:
    """Raise ValueError if the template of a command cannot be filled in (prepared_cell.fill_template).

    Example: `{svn} log {url}`. `further_words` may be in braces, too.
    """
    known = [*file.axes, *WORDS, *further_words]
    if command.program is not None:
        known.append("program")
    for kind in (command.input, command.output):
        if kind is not None:
            known += SUBJECT_WORDS[kind]
    check_words(template, known)
    try:
        parts = shlex.split(template)
    except ValueError as error:
        raise ValueError(f"{error}. Close the quotation mark.") from None
    if template and not parts:
        raise ValueError("names no program. Write the command.")
    for part in parts:
        for word in WORD.findall(part):
            # Several arguments cannot be a piece of one, as in `--x={svnadmin_args}`.
            if word in LISTS and part != f"{{{word}}}":
                text = f"{{{word}}} stands for several arguments. Put spaces around it."
                raise ValueError(text)
