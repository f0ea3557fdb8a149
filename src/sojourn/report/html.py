"""The page: one self-contained file, verdicts first, no script, nothing loaded, no text of logs.

Labels (names of models, tasks sets, files) come from logs and are hostile: control characters are
taken out, then Jinja escapes everything. Only the figures, drawn by us from numbers, are markup.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import sojourn
from sojourn._files import write_text
from sojourn.assess import GroupedAssessment, TraceAssessment
from sojourn.assess.comparison_results import Comparison, ComparisonFamily
from sojourn.assess.session_comparison import SessionComparison
from sojourn.assess.session_results import GroupedSessionAssessment, SessionAssessment
from sojourn.report import comparison as of_comparison
from sojourn.report import session_comparison as of_two_logs
from sojourn.report import sessions as of_sessions
from sojourn.report.parts import Rows, Section, short_name
from sojourn.report.sections import cards, claim_rows, clean_deep, overview_rows, sections
from sojourn.tables import clean, n_of
from sojourn.tables.words import percent

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["PageView", "Result", "environment_of", "html_text", "page_of", "write_report"]

T = TypeVar("T")
Result = (
    TraceAssessment
    | GroupedAssessment
    | SessionAssessment
    | GroupedSessionAssessment
    | ComparisonFamily
    | SessionComparison
)

# A page stays below a megabyte as long as it can: this is for the figures of all parts and the
# tables of each, which weigh about so much.
_PAGE_BYTES = 950_000
_TABLE_BYTES = 48_000
_NO_FIGURES = (
    "Its figures are left out, for the page to stay below a megabyte; a page of this part alone "
    "has them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupView:
    id: str
    name: str
    lede: str
    policy: str
    cards: list[Any]
    claims: Rows
    cautions: list[dict[str, str]]
    sections: list[Section]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """What a page holds; the templates only lay it out."""

    title: str
    groups: list[_GroupView]
    overview: Rows
    unusable: Sequence[str] = ()
    version: str = sojourn.__version__
    style: Any = ""
    command: str = ""
    versions: str = ""
    subject: str = "reliability of agent runs"
    overview_title: str = "Overview: groups are never pooled"
    methods: str = "methods.html"


def write_report(
    result: Result,
    path: str | os.PathLike[str],
    *,
    command: Sequence[str] = (),
) -> None:
    """Write a result as one HTML page, all or nothing.

    Parameters
    ----------
    result : TraceAssessment, SessionAssessment, a grouped one, ComparisonFamily, SessionComparison
        What to show.
    path : path-like
        The file; its folder must exist.
    command : sequence of str
        The command line that made it, for the page's last part.
    """
    write_text(path, html_text(result, command=command))


def html_text(result: Result, *, command: Sequence[str] = ()) -> str:
    """Return a result as the text of an HTML page; see `write_report`."""
    from markupsafe import Markup

    page = page_of(result)
    style = files("sojourn.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    page = replace(
        page,
        style=Markup(style),
        command=shlex.join(clean(word, limit=500) for word in command) or "from Python",
    )
    return environment_of().get_template("page.html").render(page=page)


def environment_of() -> Environment:
    """Return what fills templates in: all is escaped, and a name that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("sojourn.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = _unbroken
    environment.globals["table"] = environment.get_template("table.html").module.table  # type: ignore[attr-defined]
    return environment


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]{1,20}")


def _unbroken(text: object) -> Markup:
    """Return a text, escaped, whose command-line options are not broken after their dashes."""
    from markupsafe import Markup, escape

    return Markup(_OPTION.sub(r'<span class="option">\g<0></span>', str(escape(text))))


def page_of(result: Result, *, whole: bool = True) -> PageView:
    """Return what stands on the page of a result; its sections only where it is wanted whole."""
    if isinstance(result, ComparisonFamily):
        return _comparison_page(result, whole=whole)
    if isinstance(result, SessionComparison):
        return _session_comparison_page(result, whole=whole)
    if isinstance(result, SessionAssessment | GroupedSessionAssessment):
        return _session_page(result, whole=whole)
    return _trace_page(result, whole=whole)


def _trace_page(result: TraceAssessment | GroupedAssessment, *, whole: bool) -> PageView:
    groups = list(result) if isinstance(result, GroupedAssessment) else [result]
    return PageView(
        title=_title(groups),
        groups=_with_room(groups, partial(_view, whole=whole)),
        overview=overview_rows(groups),
        unusable=_unusable(result),
        versions=", ".join(_versions(groups[0])),
    )


def _session_page(result: SessionAssessment | GroupedSessionAssessment, *, whole: bool) -> PageView:
    groups = list(result) if isinstance(result, GroupedSessionAssessment) else [result]
    one = clean(groups[0].group)

    def view(group: SessionAssessment, number: int, with_figures: bool) -> _GroupView:
        return _GroupView(
            id=f"group-{number}",
            name=clean(group.group),
            lede=of_sessions.lede(group),
            policy=of_sessions.policy_line(group),
            cards=of_sessions.cards(group),
            claims=of_sessions.claim_rows(group),
            cautions=[clean_deep(caution.to_dict()) for caution in group.cautions],
            sections=of_sessions.sections(group, with_figures=with_figures) if whole else [],
        )

    return PageView(
        title=one if len(groups) == 1 else f"{len(groups)} groups of sessions",
        groups=_with_room(groups, view),
        overview=of_sessions.overview(groups),
        unusable=_unusable(result),
        versions=", ".join(_software(groups[0].seed)),
        subject="reliability over the tasks of sessions",
        methods="session_methods.html",
    )


def _comparison_page(result: ComparisonFamily, *, whole: bool) -> PageView:
    def view(comparison: Comparison, number: int, with_figures: bool) -> _GroupView:
        return _GroupView(
            id=f"group-{number}",
            name=f"{short_name(comparison.name_b)} against {short_name(comparison.name_a)}",
            lede=of_comparison.lede(comparison),
            policy=of_comparison.policy_line(comparison),
            cards=of_comparison.cards(comparison),
            claims=of_comparison.answer_rows(comparison),
            cautions=[],
            sections=of_comparison.sections(comparison, with_figures=with_figures) if whole else [],
        )

    return PageView(
        title=of_comparison.title(result),
        groups=_with_room(result.comparisons, view),
        overview=of_comparison.overview(result),
        versions=", ".join(_software(result.comparisons[0].seed)),
        subject="one set of runs against another",
        overview_title="Overview",
        methods="comparison_methods.html",
    )


def _session_comparison_page(result: SessionComparison, *, whole: bool) -> PageView:
    def view(domain: str, number: int, with_figures: bool) -> _GroupView:
        sections = of_two_logs.sections(result, domain, with_figures=with_figures) if whole else []
        return _GroupView(
            id=f"group-{number}",
            name=clean(domain),
            lede=of_two_logs.lede(result, domain),
            policy=of_two_logs.policy_line(result),
            cards=of_two_logs.cards(result, domain),
            claims=of_two_logs.answer_rows(result, domain),
            cautions=[],
            sections=sections,
        )

    return PageView(
        title=of_two_logs.title(result),
        groups=_with_room(list(result.answers), view),
        overview=of_two_logs.overview(result),
        versions=", ".join(_software(result.seed)),
        subject="one log of sessions against another",
        overview_title="Overview: domains are never pooled",
        methods="session_comparison_methods.html",
    )


def _with_room(parts: Sequence[T], view: Callable[[T, int, bool], _GroupView]) -> list[_GroupView]:
    """Return a view of each part, with figures as long as the page has room for as many more."""
    views: list[_GroupView] = []
    room = _PAGE_BYTES - _TABLE_BYTES * len(parts)
    used = largest = 0
    for number, part in enumerate(parts):
        with_figures = not number or used + largest <= room
        made = view(part, number, with_figures)
        size = sum(len(figure.svg) for section in made.sections for figure in section.figures)
        used, largest = used + size, max(largest, size)
        if not with_figures:
            made = replace(made, policy=f"{made.policy} {_NO_FIGURES}")
        views.append(made)
    return views


def _unusable(result: Result) -> list[str]:
    """Return the groups that are missing on the page, each with its reason."""
    groups: Sequence[tuple[object, str]] = getattr(result, "unusable", ())
    return [f"{clean(group)}: {clean(reason, limit=300)}" for group, reason in groups]


def _title(groups: Sequence[TraceAssessment]) -> str:
    return clean(groups[0].group) if len(groups) == 1 else f"{len(groups)} groups of runs"


def _view(result: TraceAssessment, number: int, with_figures: bool, *, whole: bool) -> _GroupView:
    corpus = result.corpus
    low, _, high = corpus.attempts
    attempts = n_of(low, "attempt") if low == high else f"{low} to {high} attempts"
    return _GroupView(
        id=f"group-{number}",
        name=clean(result.group),
        lede=f"{corpus.n_counted:,} of {n_of(corpus.n_traces, 'run')} count: "
        f"{n_of(corpus.n_tasks, 'task')}, {attempts} each, {n_of(corpus.n_steps, 'step')}.",
        policy=f"Policy: {result.policy}. Intervals are {percent(result.ci_prob)}, with tasks as "
        "the sample.",
        cards=cards(result),
        claims=claim_rows(result),
        cautions=[clean_deep(caution.to_dict()) for caution in result.cautions],
        sections=sections(result, with_figures=with_figures) if whole else [],
    )


def _versions(result: TraceAssessment) -> Iterator[str]:
    yield from _software(result.seed)
    yield f"{result.n_resamples} bootstrap replicates"


def _software(seed: int | None) -> Iterator[str]:
    yield f"Sojourn {sojourn.__version__}"
    yield f"Python {platform.python_version()}"
    yield f"NumPy {np.__version__}"
    yield f"seed {'of the caller' if seed is None else seed}"
