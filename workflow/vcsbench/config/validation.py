"""Checks a YAML file's content against a JSON Schema and says what is wrong in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from vcsbench.errors import UserError

SCHEMAS = Path(__file__).parents[2] / "schemas"


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; a UserError where it is missing or is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; {_siblings(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from None


def validate(content: Any, schema: str, where: Callable[[Sequence[Any]], str]) -> None:
    """Raise a UserError for the first key of `content` that workflow/schemas/<schema>.schema.yaml refuses.

    `where` tells the file that a path of keys comes from.
    """
    import jsonschema  # heavy: only where something is validated

    rules = read_yaml(SCHEMAS / f"{schema}.schema.yaml")
    errors = jsonschema.Draft202012Validator(rules).iter_errors(content)
    error = jsonschema.exceptions.best_match(errors)
    if error is not None:
        raise UserError(_sentence(error, where))


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
