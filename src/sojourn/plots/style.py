"""How our figures look, and how a figure becomes SVG for a page.

Figures are made without pyplot (no global state, half the import). Their ink is one marked colour
that the SVG turns into ``currentColor``, so that a page in dark mode needs no second figure.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "GREY",
    "INK",
    "ORANGE",
    "PURPLE",
    "legend_above",
    "new_axes",
    "new_row",
    "plain_label",
    "styled",
    "to_svg",
    "with_last_step",
]

# Colours that stay apart in colour blindness and have 3:1 contrast on white and on near-black.
BLUE = "#2f80c3"
ORANGE = "#d55e00"
PURPLE = "#a5618f"
GREY = "#808080"
INK = "#010203"

_SIZE = (4.8, 3.2)
# What is measured with, and of a reader's fonts the one of the same width.
_FONT = "'DejaVu Sans', Verdana, sans-serif"
# matplotlib's stubs name every setting as a literal; a plain mapping is all that we need.
_SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.5,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    # Letters stay letters: they can be read aloud, searched and copied, and weigh a third.
    "svg.fonttype": "none",
    "svg.hashsalt": "sojourn",
    # A label of a log may hold dollar signs, which are no formula.
    "text.parse_math": False,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in our style inside this context, leaving the user's settings as they were."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        yield


def new_axes(size: tuple[float, float] = _SIZE) -> Axes:
    """Return the axes of a new figure of the given size in inches."""
    from matplotlib.figure import Figure

    figure: Figure = Figure(figsize=size, layout="constrained")
    axes: Axes = figure.add_subplot()
    return axes


def new_row(n: int, size: tuple[float, float]) -> list[Axes]:
    """Return `n` axes of a new figure, in rows of at most three."""
    from matplotlib.figure import Figure

    columns = min(n, 3)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(-(-n // columns), columns, squeeze=False).ravel()
    for unused in grid[n:]:
        unused.set_axis_off()
    return list(grid[:n])


def with_last_step(steps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the steps with one more after the last, which gives a curve's last value a width."""
    return np.append(steps, steps[-1] + 1)


def legend_above(ax: Axes, *, title: str | None = None, columns: int = 2) -> None:
    """Put the legend above the axes, where no curve can run under it."""
    ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        title=title,
    )


def plain_label(label: str, *, limit: int = 24) -> str:
    """Return a label from a log as the figure's font can draw it, shortened.

    Characters that the font lacks become ``?``: they would be boxes, each with a warning.
    """
    text = "".join(c if c.isprintable() and ord(c) in _drawable() else "?" for c in label)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


@cache
def _drawable() -> frozenset[int]:
    """Return the characters of the font that is drawn with."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap())


def to_svg(axes: Axes, *, description: str) -> str:
    """Return a figure as SVG to stand inside a page.

    Parameters
    ----------
    axes : Axes
        Any axes of the figure.
    description : str
        What the figure shows, for those who do not see it; plain words of ours.
    """
    from html import escape

    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    # Not by savefig, which draws every figure twice.
    figure: Any = axes.figure
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = svg.replace(INK, "currentColor")
    svg = _compact(re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL))
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"font-family: ?[^;\"]*;? ?", "", svg)
    label = f'<svg role="img" aria-label="{escape(description)}" font-family="{_FONT}"'
    return _with_own_ids(svg.replace("<svg", label, 1))


_PLACES = re.compile(r'(?<= )(?:d|x|y|style)="[^"]*"|translate\([^)]*\)')
_DECIMALS = re.compile(r"\d+\.\d{3,}")
_SPACES = re.compile(r"\s*([MLQCz:;])\s*")


def _compact(svg: str) -> str:
    """Write numbers to a hundredth of a point and no space that says nothing: half of the bytes."""

    def rounded(number: re.Match[str]) -> str:
        return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")

    def place(found: re.Match[str]) -> str:
        return _DECIMALS.sub(rounded, _SPACES.sub(r"\1", found[0]))

    svg = re.sub(r">\s+<", "><", svg).replace("xlink:href=", "href=").replace("<g/>", "")
    return re.sub(r' transform="rotate\(-?0 [^"]*"', "", _PLACES.sub(place, svg))


def _with_own_ids(svg: str) -> str:
    """Give what a figure refers to short names of its own: one page holds many figures.

    Names that nothing refers to go; every figure has a ``patch_1``.
    """
    own = hashlib.sha256(svg.encode()).hexdigest()[:8]
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    names = {name: f"{own}-{number}" for number, name in enumerate(used)}

    def named(match: re.Match[str]) -> str:
        return f' id="{names[match[1]]}"' if match[1] in names else ""

    svg = re.sub(r' id="([^"]*)"', named, svg)
    return re.sub(r'(href="#|url\(#)([^")]+)', lambda found: found[1] + names[found[2]], svg)
