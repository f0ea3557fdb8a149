"""Imports go down only, and neighbours on one level do not know each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sojourn

PACKAGE = Path(sojourn.__file__).parent

# From the bottom up; a module may import from lower rows and from inside its own part only.
LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "_limits", "_numba", "_threads", "data"}),
    frozenset({"_validation", "_files", "_redaction"}),
    frozenset({"records", "stats", "plots", "tables"}),
    frozenset({"sequences", "task_sequences", "estimates"}),
    frozenset({"corpus"}),
    frozenset({"readers"}),
    frozenset({"states", "process", "session", "attempts"}),
    frozenset({"assess"}),
    frozenset({"report"}),
    frozenset({"cli", "_inspect"}),
    frozenset({"__main__", "inspect_ai"}),
)
LEVEL = {part: number for number, parts in enumerate(LEVELS) for part in parts}


def part_of(module: str) -> str | None:
    """Return the first name below ``sojourn``, or None for the package itself or a stranger."""
    names = module.split(".")
    return names[1] if names[0] == "sojourn" and len(names) > 1 else None


def imported_parts(path: Path) -> list[str]:
    parts = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            modules = [node.module]
            if node.module == "sojourn":
                modules = [f"sojourn.{alias.name}" for alias in node.names]
        else:
            continue
        parts += [part for module in modules if (part := part_of(module)) is not None]
    return [part for part in parts if part != "__version__"]


SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert own in LEVEL, f"{own} has no place in LEVELS"
    for part in imported_parts(path):
        assert part == own or LEVEL[part] < LEVEL[own], f"{own} imports {part}"
