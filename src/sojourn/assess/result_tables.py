"""The tables of results, rows as plain dictionaries; `exported` makes frames of them.

Runs, comparisons and gates are told by what stands in their JSON, so that a table and the JSON
cannot say different things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import singledispatch
from typing import Any

from sojourn._validation import check_choice
from sojourn.assess.comparison_results import Comparison, ComparisonFamily
from sojourn.assess.gate import Gate
from sojourn.assess.results import GroupedAssessment, TraceAssessment
from sojourn.assess.session_comparison import SessionComparison
from sojourn.assess.session_export import domain_rows, whole_rows
from sojourn.assess.session_results import (
    DomainAssessment,
    GroupedSessionAssessment,
    SessionAssessment,
)

__all__ = ["rows"]

Row = dict[str, Any]
Tables = Mapping[str, Callable[[Mapping[str, Any]], Iterator[Row]]]
_SESSION_TABLES = ("reliability", "functionals", "selection", "claims")


@singledispatch
def rows(result: Any, table: str | None) -> list[Row]:
    """Return the rows of one table of a result, the first of its tables for None.

    Raises
    ------
    ValueError
        If it has no table of that name.
    """
    raise TypeError(f"{type(result).__name__} has no tables")


@rows.register
def _(result: TraceAssessment, table: str | None) -> list[Row]:
    return _told(result.to_dict(), _TRACES, table)


@rows.register
def _(result: GroupedAssessment, table: str | None) -> list[Row]:
    return [{**group.group.to_dict(), **row} for group in result for row in rows(group, table)]


@rows.register
def _(result: Comparison, table: str | None) -> list[Row]:
    return _told(result.to_dict(), _COMPARISONS, table)


@rows.register
def _(result: ComparisonFamily, table: str | None) -> list[Row]:
    return [
        {"name_a": pair.name_a, "name_b": pair.name_b, **row}
        for pair in result
        for row in rows(pair, table)
    ]


@rows.register
def _(result: SessionComparison, table: str | None) -> list[Row]:
    return _told(result.to_dict(), {"differences": _session_differences}, table)


@rows.register
def _(result: Gate, table: str | None) -> list[Row]:
    return _told(result.to_dict(), {"rules": _rules}, table)


@rows.register
def _(result: DomainAssessment, table: str | None) -> list[Row]:
    chosen = _chosen(table, _SESSION_TABLES)
    if chosen == "claims":
        return [_claim(claim.to_dict()) for claim in result.claims]
    return domain_rows(result, chosen)


@rows.register
def _(result: SessionAssessment, table: str | None) -> list[Row]:
    chosen = _chosen(table, _SESSION_TABLES)
    if chosen == "claims":
        return [{"domain": d.name, **row} for d in result.domains for row in rows(d, chosen)]
    return whole_rows(result, chosen)


@rows.register
def _(result: GroupedSessionAssessment, table: str | None) -> list[Row]:
    return [{**group.group.to_dict(), **row} for group in result for row in rows(group, table)]


def _chosen(table: str | None, tables: tuple[str, ...]) -> str:
    return tables[0] if table is None else check_choice(table, tables, name="table")


def _told(document: Mapping[str, Any], tables: Tables, table: str | None) -> list[Row]:
    return list(tables[_chosen(table, tuple(tables))](document))


def _cells(estimate: Mapping[str, Any] | None, prefix: str = "") -> Row:
    """Return an estimate of the JSON as columns; None for one that does not exist."""
    found = {} if estimate is None else estimate
    low, high = found.get("interval") or (None, None)
    cells = {"value": found.get("value"), "low": low, "high": high, "status": found.get("status")}
    return {f"{prefix}{name}": cell for name, cell in cells.items()}


def _estimates(document: Mapping[str, Any]) -> Iterator[Row]:
    told = document["estimates"]

    def row(name: str, argument: int | None, estimate: Mapping[str, Any]) -> Row:
        return {
            "name": name,
            "argument": argument,
            "estimand": estimate["estimand"],
            **_cells(estimate),
            "reasons": "; ".join(estimate["reasons"]),
        }

    for name in ("success_rate", "success_rate_same_tasks", "success_rate_naive"):
        yield row(name, None, told[name])
    for name in ("pass_hat", "pass_at"):
        for item in told[name]:
            yield row(name, item["k"], item)
            if item["same_tasks"] is not None:
                yield row(name, item["k"], item["same_tasks"])
    yield row("icc", None, document["heterogeneity"]["icc"])
    yield row("success_ever", None, told["success_ever"])
    for name in ("restricted_mean", "median", "p90"):
        yield row(f"steps_{name}", None, told["steps_to_finish"][name])


def _curves(document: Mapping[str, Any]) -> Iterator[Row]:
    told = document["estimates"]
    for success, failure in zip(told["success_within"], told["failure_within"], strict=True):
        yield {
            "d": success["d"],
            "extrapolated": success["extrapolated"],
            **_cells(success, "success_"),
            **_cells(failure, "failure_"),
        }


def _claims(document: Mapping[str, Any]) -> Iterator[Row]:
    for claim in document["certificate"]["claims"]:
        yield {**_claim(claim), "process": claim["process"]}


def _claim(claim: Mapping[str, Any]) -> Row:
    bound = claim["error_bound"] or {}
    return {
        "claim": claim["claim"],
        "verdict": claim["verdict"],
        "p_value": claim["p_value"],
        "error_bound_success": bound.get("success"),
        "error_bound_failure": bound.get("failure"),
        "reasons": "; ".join(claim["reasons"]),
        "next": claim["next"],
    }


def _differences(document: Mapping[str, Any]) -> Iterator[Row]:
    for row in document["rows"]:
        yield {
            **{name: row[name] for name in ("name", "a", "b")},
            **_cells(row["difference"]),
            **_cells(row["same_tasks"], "same_tasks_"),
        }


def _transitions(document: Mapping[str, Any]) -> Iterator[Row]:
    for row in document["transitions"]:
        yield {
            **{name: row[name] for name in ("from", "to", "a", "b")},
            **_cells(row["difference"]),
            "adjusted_p_value": row["adjusted_p_value"],
        }


def _session_differences(document: Mapping[str, Any]) -> Iterator[Row]:
    for row in document["rows"]:
        yield {
            **{name: row[name] for name in ("domain", "start", "n", "a", "b")},
            **_cells(row["difference"]),
            "chance_better": row["chance_better"],
        }


def _rules(document: Mapping[str, Any]) -> Iterator[Row]:
    for row in document["rules"]:
        yield {
            **{name: row[name] for name in ("rule", "group", "answer")},
            **_cells(row["estimate"]),
            "smallest_drop": row["smallest_drop"],
            "reasons": "; ".join(row["reasons"]),
        }


_TRACES: Tables = {"estimates": _estimates, "curves": _curves, "claims": _claims}
_COMPARISONS: Tables = {
    "differences": _differences,
    "tasks": lambda document: iter(document["flips"]),
    "transitions": _transitions,
}
