"""Checks a YAML file's content against a JSON Schema and says what is wrong in one sentence."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from vcsbench.errors import UserError
from vcsbench.external import printable, read_bytes

YAML_BYTES = 4 << 20
YAML_DEPTH = 40
YAML_NODES = 100_000
SCHEMAS = Path(__file__).parents[2] / "schemas"


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file. Raise UserError if it is missing, too large or not YAML."""
    try:
        text = read_bytes(path, YAML_BYTES).decode()
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; {_siblings(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: str | Path) -> Any:
    """Return the content of a YAML text of limited depth and size. `path` names it in a UserError."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_size(yaml.parse(text, Loader=loader), path)
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        said = printable(" ".join(str(error).split()))
        raise UserError(f"{path}: is not valid YAML: {said}") from None


def _check_size(events: Iterable[yaml.Event], path: str | Path) -> None:
    """Refuse a text whose content is too deep or too large. An alias counts as often as it is used."""
    open_anchors: list[str | None] = []
    counts = [0]
    of_anchor: dict[str, int] = {}
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            open_anchors.append(event.anchor)
            counts.append(1)
        elif isinstance(event, yaml.CollectionEndEvent):
            count, anchor = counts.pop(), open_anchors.pop()
            counts[-1] += count
            if anchor:
                of_anchor[anchor] = count
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in open_anchors:
                raise UserError(f"{path}: `*{event.anchor}` contains itself. Remove the alias.")
            counts[-1] += of_anchor.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            counts[-1] += 1
        if len(counts) > YAML_DEPTH or sum(counts) > YAML_NODES:
            raise UserError(
                f"{path}: the YAML is too large: more than {YAML_DEPTH} levels or {YAML_NODES} values. "
                f"Shorten it."
            )


def validate(content: Any, schema: str, where: Callable[[Sequence[Any]], str]) -> None:
    """Raise a UserError for the first key of `content` that workflow/schemas/<schema>.schema.yaml refuses.

    `where` tells the file that a path of keys comes from.
    """
    import jsonschema  # heavy: only where something is validated

    _check_finite(content, where, [])
    rules = read_yaml(SCHEMAS / f"{schema}.schema.yaml")
    errors = jsonschema.Draft202012Validator(rules).iter_errors(content)
    error = jsonschema.exceptions.best_match(errors)
    if error is not None:
        raise UserError(_sentence(error, where))


def _check_finite(content: Any, where: Callable[[Sequence[Any]], str], keys: list[Any]) -> None:
    if isinstance(content, float) and not math.isfinite(content):
        raise UserError(
            f"{where(keys)}: `{dotted(keys)}`: '{content}' is no finite number. Give one."
        )
    items = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for key, value in items:
        _check_finite(value, where, [*keys, key])


def _sentence(error: Any, where: Callable[[Sequence[Any]], str]) -> str:
    keys = list(error.absolute_path)
    if error.validator == "additionalProperties":
        known = sorted(error.schema.get("properties", {}))
        unknown = next(key for key in error.instance if key not in known)
        hint = difflib.get_close_matches(str(unknown), known, 1)
        advice = f"did you mean `{hint[0]}`?" if hint else f"the keys are {', '.join(known)}"
        return (
            f"{where([*keys, unknown])}: `{dotted([*keys, unknown])}` is not a key here; {advice}"
        )
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        return f"{where(keys)}: `{dotted([*keys, missing])}` is missing; {_about(error, missing)}"
    if error.validator == "pattern":
        what = "letters, digits, `.`, `_` and `-`, beginning with a letter or digit"
        return f"{where(keys)}: `{dotted(keys)}`: {error.instance!r} may only have {what}"
    return f"{where(keys)}: `{dotted(keys) or 'the file'}`: {error.message}; {_expected(error)}"


def _about(error: Any, key: str) -> str:
    text = error.schema.get("properties", {}).get(key, {}).get("description", "add it")
    return " ".join(text.split()).rstrip(".")


def _expected(error: Any) -> str:
    description = error.schema.get("description") if isinstance(error.schema, dict) else None
    return " ".join(description.split()).rstrip(".") if description else "see config/README.md"


def dotted(keys: Sequence[Any]) -> str:
    """A path of keys as people write it: `grid.fsfs-san-2014.include[0].cache`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def _siblings(path: Path) -> str:
    names = sorted(p.stem for p in path.parent.glob(f"*{path.suffix}"))
    return f"{path.parent} has {', '.join(names)}" if names else "check the name"
