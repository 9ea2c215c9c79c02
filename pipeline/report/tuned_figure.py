"""What `tartan tune` chose, and how much better it looks on the questions it was chosen on."""

from collections.abc import Sequence

from pipeline.report.figure import Figure, signed
from pipeline.report.sweep_tables import Line

HEADINGS = ("fold", "chosen", "tuned on", "reported", "95% interval", "gap", "to baseline", "p", "n")


def tuned_figures(lines: Sequence[Line]) -> list[Figure]:
    """A table of the folds; nothing where nothing was tuned."""
    if not lines:
        return []
    last = lines[-1]
    table = [
        HEADINGS,
        *(
            (
                str(line["fold"]),
                str(line["chosen"]),
                f"{line['tuned_mean']:.3f}",
                f"{line['mean']:.3f}",
                "" if line["low"] is None else f"{line['low']:.3f} to {line['high']:.3f}",
                signed(line["gap"]),
                signed(line["difference"]),
                f"{line['p']:.4f}",
                f"{line['n']:,}",
            )
            for line in lines
        ),
    ]
    caption = (
        f"Mean {last['objective']} of the chosen variant on the questions it was chosen on, and on those reported on "
        f"(n); the gap is what choosing made of chance. Excluded: {last['excluded']:,} questions without the objective "
        f"in some variant. {last['method']}."
    )
    columns = list(last)
    rows = [[line[name] for name in columns] for line in lines]
    title = f"Tuned for {last['objective']}" + (f": {last['warning']}" if last["warning"] else "")
    return [Figure("tuned", title, caption, columns, rows, table=table)]
