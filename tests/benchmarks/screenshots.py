"""`python -m tests.benchmarks.screenshots REPORT [FOLDER]`: a report on a desk, a telephone and paper, as PNG files to
look at; the first question is open. Needs Chromium."""

import sys
import tempfile
from pathlib import Path

from tests.pipeline.report.chromium import chromium

VIEWS = {
    "desk-light": (1280, "light", "screen"),
    "desk-dark": (1280, "dark", "screen"),
    "telephone-light": (390, "light", "screen"),
    "telephone-dark": (390, "dark", "screen"),
    "print": (700, "light", "print"),
}


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    file, folder = Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) == 3 else "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as page:
        for name, (width, scheme, media) in VIEWS.items():
            page.look(width, 900, scheme, media)
            page.open(file)
            page.evaluate("document.querySelector('button.entry').click()")
            page.wait("document.querySelectorAll('.pane details').length > 0")
            page.screenshot(folder / f"{name}.png")
            print(folder / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
