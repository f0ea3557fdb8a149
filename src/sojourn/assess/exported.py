"""What every result can be made into besides text and JSON: tables, flat numbers, a figure.

The tables are those of `result_tables`, the numbers those of `result_metrics`, the figures those of
`result_figures`; each is loaded when it is asked for, and so are pandas, polars and matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sojourn.corpus import Group

__all__ = ["SCHEMA_VERSION", "Exported", "frame", "unusable_dicts"]

# Of the JSON of every result: a new major one where a name is changed.
SCHEMA_VERSION = "1.0"


def unusable_dicts(unusable: Iterable[tuple[Group, str]]) -> list[dict[str, Any]]:
    """Return groups of which nothing counts as plain values, each with its reason."""
    return [{"group": group.to_dict(), "reason": reason} for group, reason in unusable]


class Exported:
    """A result that can be taken elsewhere."""

    __slots__ = ()

    def to_pandas(self, table: str | None = None) -> Any:
        """Return one table of the result as a pandas DataFrame; needs pandas.

        Parameters
        ----------
        table : str, optional
            Which table; the first of its kind by default. Of runs ``estimates``, ``curves``,
            ``claims``; of sessions ``reliability`` (R(n) by start), ``functionals``,
            ``selection``, ``claims``; of comparisons ``differences``, and of runs ``tasks``,
            ``transitions`` too; of gates ``rules``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            If the result has no table of that name.
        """
        return frame(self._rows(table), "pandas")

    def to_polars(self, table: str | None = None) -> Any:
        """Return one table of the result as a polars DataFrame; needs polars.

        Parameters
        ----------
        table : str, optional
            As of `to_pandas`.

        Raises
        ------
        ImportError
            If polars is not installed.
        ValueError
            If the result has no table of that name.
        """
        return frame(self._rows(table), "polars")

    def flat_metrics(self) -> dict[str, float]:
        """Return the figures as plain numbers by name, for a tracker of experiments.

        Returns
        -------
        dict of str to float
            Names are of letters, digits and underscores. A figure comes with ``_low`` and
            ``_high``, and ``_supported`` which is 1 where it may be used as it is, else 0; one
            that has no value is left out.

        Examples
        --------
        >>> import sojourn
        >>> from sojourn.data import example_path
        >>> runs = sojourn.read_traces(example_path())
        >>> found = sojourn.assess_traces(runs, chain=None, n_resamples=99, rng=0).flat_metrics()
        >>> round(found["pass_hat_4"], 3), found["pass_hat_4_supported"]
        (0.2, 1.0)
        """
        from sojourn.assess.result_metrics import metrics

        return metrics(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the figure that says most of the result, and return its axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes by default.

        Raises
        ------
        ValueError
            If nothing in the result has a value.
        """
        from sojourn.assess.result_figures import draw_result

        return draw_result(self, ax)

    def _rows(self, table: str | None) -> list[dict[str, Any]]:
        from sojourn.assess.result_tables import rows

        return rows(self, table)


def frame(rows: list[dict[str, Any]], library: str) -> Any:
    """Return rows as a DataFrame of pandas or polars; ImportError if it is not installed.

    Every row gets every column; what a row does not have is missing.
    """
    try:
        module = import_module(library)
    except ImportError as error:
        raise ImportError(
            f"to_{library}() needs {library}, which is optional: pip install {library}"
        ) from error
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    if library == "polars":
        return module.DataFrame(columns, strict=False)
    return module.DataFrame(columns)
