"""``sojourn forecast``: what a model expects of runs that are under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli._models import Json, ModelPath, check_json, load, put_json
from sojourn.cli._options import Columns, Format, Quiet, Scorer, read_corpus

if TYPE_CHECKING:
    from sojourn.assess.model_file import FittedModel
    from sojourn.corpus import TraceCorpus
    from sojourn.estimates import Estimate
    from sojourn.process.forecast import ForecastTables, RunForecast
    from sojourn.process.stopping import StopRule

__all__ = ["command"]

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="PARTIAL_RUN...",
        help="Runs so far, in any format that is read; - reads standard input.",
        show_default=False,
    ),
]


def command(
    model: ModelPath,
    runs: Runs,
    every: Annotated[
        bool, typer.Option("--every", help="A line for every step, not for the last one only.")
    ] = False,
    cost: Annotated[
        float | None,
        typer.Option(
            help="Cost of a step as a share of what a success is worth; says when to stop.",
            metavar="SHARE",
        ),
    ] = None,
    json: Json = None,
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    ci: Annotated[float, typer.Option("--ci", help="Probability of intervals.")] = 0.95,
    quiet: Quiet = False,
) -> None:
    """Forecast runs that are under way; a run that is over is its outcome."""
    if not 0 < ci < 1:
        raise typer.BadParameter(f"{ci} does not lie between 0 and 1", param_hint="--ci")
    if cost is not None and not 0 < cost < 1:
        raise typer.BadParameter(f"{cost} does not lie between 0 and 1", param_hint="--cost")
    check_json(json, (model, *runs))
    fitted = load(model)
    corpus = read_corpus(
        runs,
        format=format,
        columns=columns,
        scorer=scorer,
        outcomes=None,
        strict=False,
        quiet=quiet,
        under_way=True,
    )
    from sojourn.assess.model import model_tables
    from sojourn.process.stopping import stop_rule

    tables = model_tables(fitted)
    rule = None
    if cost is not None:
        rule = stop_rule(
            fitted.process,
            cost=cost,
            horizon=fitted.horizon,
            draws=fitted.draws,
            n_units=fitted.n_units,
            ci_prob=ci,
        )
    found = [(_name(corpus, run), _follow(fitted, tables, corpus, run, ci)) for run in
             range(len(corpus))]  # fmt: skip
    document = {
        "kind": "forecast",
        "process": fitted.process.name,
        "horizon": fitted.horizon,
        "claims": fitted.certificate,
        "caution": fitted.caution("forecast"),
        "stop_rule": None if rule is None else rule.to_dict(),
        "runs": [
            name
            | {
                "forecasts": [
                    f.to_dict() | {"blind": _blind_estimate(fitted, tables, f.step, ci).to_dict()}
                    for f in (path if every else path[-1:])
                ]
            }
            for name, path in found
        ],
    }
    if not put_json(document, json, quiet=quiet):
        typer.echo("\n".join(_lines(fitted, tables, found, rule, every=every)))


def _follow(
    fitted: FittedModel, tables: ForecastTables, corpus: TraceCorpus, run: int, ci: float
) -> list[RunForecast]:
    """Feed a run's steps to a monitor; give the forecasts before, after each, and at the end."""
    from sojourn.assess.model import monitor_of
    from sojourn.corpus.traces import ENDS, OUTCOMES
    from sojourn.records import End, Outcome

    monitor = monitor_of(fitted, tables=tables, ci_prob=ci)
    path = [monitor.forecast]
    for place in range(int(corpus.offsets[run]), int(corpus.offsets[run + 1])):
        digest = 0 if corpus.digests is None else int(corpus.digests[place])
        path.append(monitor.feed(corpus.step_types.step(int(corpus.steps[place]), digest)))
    outcome, end = OUTCOMES[corpus.outcome[run]], ENDS[corpus.end[run]]
    if outcome is Outcome.SUCCESS or (outcome is Outcome.FAILURE and end is not End.LIMIT):
        path.append(monitor.finish(str(outcome)))
    return path


def _name(corpus: TraceCorpus, run: int) -> dict[str, Any]:
    task = int(corpus.task[run])
    repeat = int(corpus.task_repeat[run])
    return {
        "task_set": corpus.tasks.task_set[task],
        "task_id": corpus.tasks.task_id[task],
        "task_repeat": None if repeat < 0 else repeat,
    }


def _lines(
    fitted: FittedModel,
    tables: ForecastTables,
    found: list[tuple[dict[str, Any], list[RunForecast]]],
    rule: StopRule | None,
    *,
    every: bool,
) -> list[str]:
    from sojourn.tables import indent, text_table

    lines = [str(fitted)]
    if (caution := fitted.caution("forecast")) is not None:
        lines.append(caution + "; the step alone may say as much")
    if rule is not None:
        lines.append(str(rule))
    stops = ["stop"] if rule else []
    header = ["run", "step", "state", "P(success)", "by step alone", "steps left", *stops, ""]
    rows = []
    for name, path in found:
        label = name["task_id"]
        if name["task_repeat"] is not None:
            label += f" #{name['task_repeat']}"
        for forecast in path if every else path[-1:]:
            stop = [_stop(fitted, rule, forecast)] if rule else []
            rows.append(
                (
                    label,
                    forecast.step,
                    forecast.state,
                    _text(forecast.success, ".2f"),
                    "-" if forecast.outcome else _blind(fitted, tables, forecast.step),
                    _text(forecast.steps_left, ".1f"),
                    *stop,
                    _remark(fitted, forecast),
                )
            )
    lines += indent(text_table(header, rows))
    if rule is not None:
        lines.append(
            "P(success) counts that the last step may be the end; stop takes it that it was not"
        )
    return lines


def _blind_estimate(fitted: FittedModel, tables: ForecastTables, step: int, ci: float) -> Estimate:
    """Return the forecast by the step alone, which rests on the curves and on no state."""
    return fitted.resting_on("timing", tables.at(None, step, ci_prob=ci)[0])


def _blind(fitted: FittedModel, tables: ForecastTables, step: int) -> str:
    value = float(tables.blind_success[min(step, tables.blind_success.size - 1)])
    mark = "" if fitted.doubt("timing") is None else " ?"
    return "-" if value != value else f"{value:.2f}{mark}"


def _stop(fitted: FittedModel, rule: StopRule | None, forecast: RunForecast) -> str:
    if rule is None or forecast.outcome is not None:
        return "-"
    stops = None
    if forecast.state is not None and forecast.known and forecast.step > 0:
        state = tuple(fitted.states.state_names).index(forecast.state)
        stops = rule.stops(state, forecast.step)
    if stops is None:
        at = min(forecast.step, rule.blind_worth.size - 1)
        stops = bool(rule.blind_worth[at] <= 0.0)
    return "yes" if stops else "no"


def _text(estimate: Estimate, form: str) -> str:
    if estimate.value is None:
        return "-"
    text = f"{estimate.value:{form}}"
    if estimate.interval is not None:
        text += f" [{estimate.interval.low:{form}}, {estimate.interval.high:{form}}]"
    return text


def _remark(fitted: FittedModel, forecast: RunForecast) -> str:
    if forecast.outcome is not None:
        return f"over: {forecast.outcome}"
    # What holds for all of them is said once, above the table.
    said = fitted.doubt("forecast")
    return "; ".join(reason for reason in forecast.success.reasons if reason != said)
