"""The page's colours against its paper, light and dark, by the formula of WCAG 2.2."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from sojourn.plots.style import BLUE, GREY, ORANGE, PURPLE

STYLE = files("sojourn.report").joinpath("templates/page.css").read_text(encoding="utf-8")
ROOTS = re.findall(r":root \{([^}]*)\}", STYLE)
THEMES = {
    name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", root))
    for name, root in zip(("light", "dark"), ROOTS, strict=True)
}


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                        for c in channels)  # fmt: skip
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_is_that_of_black_and_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ground", ["paper", "panel"])
@pytest.mark.parametrize("text", ["ink", "soft", "good", "bad", "unsure", "accent"])
def test_text_is_read_with_ease(theme: str, ground: str, text: str) -> None:
    assert contrast(THEMES[theme][text], THEMES[theme][ground]) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("colour", [BLUE, GREY, ORANGE, PURPLE])
def test_lines_of_figures_are_seen(theme: str, colour: str) -> None:
    assert contrast(colour, THEMES[theme]["paper"]) >= 3.0
