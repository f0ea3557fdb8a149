"""Settings of a project: ``./sojourn.toml``, else ``[tool.sojourn]`` in ``./pyproject.toml``.

Only the working folder is looked at, never the folder of the logs, whose files may be hostile. A
table is named after its command and holds its long options; the command line wins over it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from sojourn._limits import SETTINGS_BYTES
from sojourn.errors import ConfigError

__all__ = ["read_config"]

_FILES = (("sojourn.toml", ()), ("pyproject.toml", ("tool", "sojourn")))


def read_config(command: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of each command by the names of its parameters.

    Parameters
    ----------
    command : command group
        The commands and their options, as the command-line library builds them.
    folder : Path
        The working folder.

    Raises
    ------
    ConfigError
        If a file is no TOML, holds a table or key that no command has, or a value of another type.
    """
    for name, keys in _FILES:
        path = folder / name
        if not path.is_file():
            continue
        table = _inside(_parse(path), keys, path)
        if table is not None:
            return {verb: _options(command, verb, given, path) for verb, given in table.items()}
    return {}


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > SETTINGS_BYTES:
            raise ConfigError(f"{path.name}: larger than a file of settings can be")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _inside(table: Mapping[str, Any], keys: tuple[str, ...], path: Path) -> Any:
    found: Any = table
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    if not isinstance(found, Mapping):
        raise ConfigError(f"{path.name}: {'.'.join(keys)} is no table")
    return found


def _options(command: Any, verb: str, given: Any, path: Path) -> dict[str, Any]:
    if verb not in command.commands:
        known = ", ".join(sorted(command.commands))
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"{path.name}: {verb} stands under no command; write it into a table, such as "
                f"[{'tool.sojourn.' if path.name == 'pyproject.toml' else ''}assess]"
            )
        raise ConfigError(f"{path.name}: no command is called {verb!r}; there are {known}")
    if not isinstance(given, Mapping):
        raise ConfigError(f"{path.name}: {verb} is no table of options")
    names = {
        option.removeprefix("--"): parameter.name
        for parameter in command.commands[verb].params
        for option in parameter.opts
        if option.startswith("--")
    }
    hints = get_type_hints(command.commands[verb].callback)
    settings = {}
    for key, value in given.items():
        plain = key.replace("_", "-")
        if names.get(plain) is None:
            raise ConfigError(
                f"{path.name}: sojourn {verb} has no option --{plain}; there are "
                f"{', '.join(sorted(names))}"
            )
        if isinstance(value, Mapping):
            raise ConfigError(f"{path.name}: {verb}.{key} is a table and no value")
        name = str(names[plain])
        settings[name] = _fitting(value, hints[name], f"{path.name}: [{verb}] {key}")
    return settings


# What an option takes -> what of TOML that may be, and how it is called.
_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
    Path: ((str,), "a text"),
}


def _fitting(value: Any, hint: Any, place: str) -> Any:
    """Return a value as its option takes it; one text alone is a list of one."""
    wanted = next(iter(kind for kind in get_args(hint) if kind is not type(None)), hint)
    if get_origin(wanted) is list or get_origin(hint) is list:
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in values):
            raise ConfigError(f"{place}: takes a text or a list of texts; there is {value!r}")
        return values
    kinds, words = _KINDS[wanted]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ConfigError(f"{place}: takes {words}; there is {value!r}")
    return value
