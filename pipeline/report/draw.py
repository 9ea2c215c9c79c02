"""Drawing with matplotlib into SVG that takes its colours and its font from the page, light or dark.

matplotlib wants colours, a page has variables: the drawing uses reserved colours, which become `var(--name)` in the
text of the SVG. Nothing in a drawing is random, and words stay words (not outlines), so they can be found and read out.
"""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 4.5, 2.9  # inches of 72 units: a figure is some 320 units wide, a telephone's width
INK, MUTED, RULE, PAPER = "#010101", "#010102", "#010103", "#010104"
SERIES = [f"#0101{n:02x}" for n in range(0x10, 0x16)]
LINES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1))]
_VARIABLES = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"} | {
    c: f"--series-{n}" for n, c in enumerate(SERIES)
}
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "tartan", "text.parse_math": False, "font.size": 8.5,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED, "axes.edgecolor": RULE,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": RULE,
    "grid.linewidth": 0.5, "axes.axisbelow": True, "axes.linewidth": 0.6, "xtick.major.size": 0,
    "ytick.major.size": 0, "lines.linewidth": 1.4, "legend.frameon": False, "legend.fontsize": 8.5,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
}  # fmt: skip


class Canvas:
    """A pair of axes; after the `with` block, `svg` is the drawing."""

    axes: "Axes"
    svg: str = ""

    def line(self, number: int, x: Any, curve: Any, label: str, marker: str | None = None) -> None:
        """A series of the numbered style with its band; `curve`: value, low, high."""
        value, low, high = curve
        colour, style = SERIES[number % len(SERIES)], LINES[number % len(LINES)]
        self.axes.plot(x, value, color=colour, linestyle=style, label=label, marker=marker, markersize=3.5)
        self.axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)

    def points(self, number: int, x: Any, curve: Any, label: str, horizontal: bool = False) -> None:
        """Values with whiskers, in the numbered colour; `x` are their places on the other axis."""
        value, low, high = curve
        # A mean of equal values may miss its own interval by a rounding.
        reach = np.maximum(0, [np.subtract(value, low), np.subtract(high, value)])
        style: dict[str, Any] = {"fmt": "osD^v*"[number % 6], "markersize": 4, "elinewidth": 1.1, "capsize": 0}
        style |= {"color": SERIES[number % len(SERIES)], "label": label}
        if horizontal:
            self.axes.errorbar(value, x, xerr=reach, **style)
        else:
            self.axes.errorbar(x, value, yerr=reach, **style)

    def mark(self, value: float) -> None:
        """A dotted line upright through a value."""
        self.axes.axvline(value, color=MUTED, linestyle=":", linewidth=1)

    def labels(self, x: str, y: str, legend: bool, count: bool = False) -> None:
        """Names with units; `count`: the vertical axis counts things, in whole numbers."""
        if count:
            from matplotlib.ticker import MaxNLocator

            self.axes.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        self.axes.set_xlabel(x)
        self.axes.set_ylabel(y)
        if legend:  # above the axes, where it covers no data
            names = self.axes.get_legend_handles_labels()[1]
            columns = 2 if max(map(len, names)) <= 24 else 1
            self.axes.legend(
                loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, handlelength=1.8
            )


@contextmanager
def canvas(name: str, height: float = HEIGHT) -> Iterator[Canvas]:
    """Axes to draw on; `name` keeps the ids of several drawings on a page apart."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        drawn = Canvas()
        drawn.axes = figure.add_subplot()
        yield drawn
        out = io.StringIO()
        with warnings.catch_warnings(action="ignore"):  # of glyphs its font lacks: the page's has them
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        drawn.svg = _of_the_page(out.getvalue(), name)


def _of_the_page(svg: str, name: str) -> str:
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true">', svg, count=1)
    svg = re.sub(r"#0101[0-9a-f]{2}", lambda found: f"var({_VARIABLES.get(found[0], '--ink')})", svg)
    svg = re.sub(r"""font: ([\d.]+px) [^;"]*""", r"font: \1 var(--sans)", svg)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
