"""The report opened in headless Chromium: hostile text, keys, widths, and thousands of questions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.report import write_report
from pipeline.report.source import read_reported
from tests.pipeline.report.chromium import BROWSER, Page, chromium
from tests.pipeline.report.runs import many_rows, passage, row, snippet, write_run

pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed (Debian package chromium)")

ATTACKS = [
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 2</script>",
    "<img src=x onerror='window.ran = 3'>",
    "<svg onload=window.ran=4><a href='javascript:window.ran=5'>x</a></svg>",
    "<!--<script>",
    "]]></style></textarea><iframe srcdoc='<script>parent.ran=6</script>'>",
    "{{ 7 * 7 }}{% raw %}${window.ran = 8}",
    "\u202egnp.exe \u2066 \u0000 \u0007 \u2028 \ufeff",
    "𝒜🇧🇿 ́́́ ﷽ اللغة العربية",
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        opened.look(1280, 900)
        yield opened


def report(tmp_path: Path, *runs: list[dict[str, Any]], **options: Any) -> Path:
    folders = [write_run(tmp_path / f"run{n} <img src=x onerror=window.ran=9>", rows) for n, rows in enumerate(runs)]
    write_report(read_reported(folders), tmp_path / "report.html", **options)
    return tmp_path / "report.html"


def text(page: Page, selector: str) -> str:
    return page.evaluate(f"document.querySelector({selector!r})?.textContent ?? ''")


def open_question(page: Page, id: str) -> None:
    page.evaluate(f"[...document.querySelectorAll('button.entry')].find(b => b.textContent.includes({id!r})).click()")
    page.wait(f"document.querySelector('.pane .id')?.textContent === {id!r}")
    page.evaluate("document.querySelectorAll('.pane details').forEach(d => d.open = true)")
    page.wait("document.querySelectorAll('.pane details').length > 0")
    page.evaluate("new Promise(done => setTimeout(done, 300))")


def choose(page: Page, name: str, value: str) -> None:
    """Sets a control of the question browser, as a hand would."""
    kind = "input" if name == "search" else "change"
    page.evaluate(
        f"(() => {{ const control = document.querySelector('[name={name}]'); control.value = {value!r};"
        f"control.dispatchEvent(new Event({kind!r})) }})()"
    )


def test_hostile_text_is_text(page: Page, tmp_path: Path) -> None:
    everything = " ".join(ATTACKS)
    rows = [
        row(
            number,
            question=attack,
            answers=[attack, everything],
            doc_ids=[attack],
            queries=[attack, everything],
            passages=[
                passage(everything, doc_id=attack, url="javascript:window.ran=10"),
                passage(attack, 8, url=attack),
            ],
            snippets=[snippet(everything, 0.5), {**snippet(attack, None, False, 8), "reason": attack}],
            answer=f"{attack}. {everything}",
            final_prompt=f"<b>{everything}</b>",
            error={"stage": attack, "kind": attack, "message": everything} if number % 2 else None,
        )
        for number, attack in enumerate(ATTACKS)
    ]
    page.events.clear()
    page.open(report(tmp_path, rows, rows))
    scripts = page.evaluate("document.scripts.length")
    for number in range(len(ATTACKS)):
        open_question(page, f"q-{number}")
        shown = text(page, ".pane")
        assert "window.ran = 2" in shown
        assert "[U+202E]" in shown
        assert "[U+0000]" in shown
    assert page.evaluate("typeof window.ran") == "undefined"
    assert page.evaluate("document.scripts.length") == scripts
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, [onerror], [onload], a[href^=javascript]').length") == 0
    )
    assert page.evaluate("document.querySelector('.pane').textContent.includes('𝒜🇧🇿')")
    assert not [e for e in page.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
    asked = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith(("file:", "about:", "blob:")) for url in asked), asked


def test_the_policy_stops_what_would_slip_in(page: Page, tmp_path: Path) -> None:
    file = report(tmp_path, [row()])
    broken = tmp_path / "broken.html"
    slip = "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'></body>"
    broken.write_text(file.read_text().replace("</body>", slip))
    page.open(broken)
    page.evaluate("new Promise(done => setTimeout(done, 300))")
    assert page.evaluate("document.images.length") == 1
    assert page.evaluate("typeof window.ran") == "undefined"


def test_long_lines_are_folded(page: Page, tmp_path: Path) -> None:
    line = "x" * 1_000_000 + "𝒜end"
    rows = [
        row(
            0, passages=[passage(line)], snippets=[snippet(line, 0.9)], final_prompt=line, queries=[line], question=line
        ),
        row(1, answer=line, error={"stage": "answer", "kind": "x", "message": line}),
    ]
    page.open(report(tmp_path, rows))
    for id in ("q-0", "q-1"):
        open_question(page, id)
        assert 500 < len(text(page, ".pane")) < 20_000
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    clicks = "[...document.querySelectorAll('.pane .answer .more')].forEach(b => { while (!b.hidden) b.click() })"
    page.evaluate(clicks)
    assert text(page, ".pane .answer").startswith(line)


def test_search_sort_filter_and_keys(page: Page, tmp_path: Path) -> None:
    lost = row(2, answer="Nobody knows. It has 14 legs.", question="How many legs has a zebra?")
    page.open(report(tmp_path, [row(0), row(1, error={"stage": "s", "kind": "k", "message": "m"}, answer=None), lost]))
    ids = "[...document.querySelectorAll('.entry .flags')].map(e => e.firstChild.textContent)"
    assert page.evaluate(ids) == ["q-0", "q-1", "q-2"]
    page.press("/")
    for letter in "ZEBRA":
        page.press(letter)
    page.wait("document.querySelectorAll('.entry').length === 1")
    assert page.evaluate(ids) == ["q-2"]
    assert "1 of 3 questions" in text(page, ".count")
    page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelector('.pane .id')?.textContent === 'q-2'")
    marked = page.evaluate("[...document.querySelectorAll('.pane mark')].map(m => m.textContent.trim())")
    assert marked == ["Nobody knows.", "It has 14 legs."]
    assert page.evaluate("location.hash") == "#q=q-2"
    page.wait("document.activeElement.tagName === 'H3'")
    page.press("Escape")
    assert page.evaluate("document.activeElement.className") == "entry"
    choose(page, "search", "")
    page.wait("document.querySelectorAll('.entry').length === 3")
    choose(page, "filter", "failed")
    assert page.evaluate(ids) == ["q-1"]
    choose(page, "filter", "gold lost: not in the answer")
    assert page.evaluate(ids) == ["q-1", "q-2"]
    choose(page, "filter", "all questions")
    choose(page, "sort", "score, high first")
    assert page.evaluate(ids) == ["q-0", "q-1", "q-2"]
    choose(page, "sort", "score, low first")
    assert page.evaluate(ids) == ["q-1", "q-2", "q-0"]


def test_a_question_shows_all_that_happened(page: Page, tmp_path: Path) -> None:
    whole = "Belize 🇧🇿 is small. The national animal of Belize is the tapir. It swims."
    part = whole[20:64]
    one = row(
        0,
        passages=[passage(whole)],
        snippets=[snippet(part, 0.61, start=20), snippet(whole[:19], 0.12, False)],
        final_prompt=f"Before {part} after",
    )
    page.open(report(tmp_path, [one]), "#q=q-0")
    page.wait("document.querySelector('.pane .id')?.textContent === 'q-0'")
    page.evaluate("document.querySelectorAll('.pane details').forEach(d => d.open = true)")
    page.wait(f"document.querySelector('.pane').textContent.includes({whole!r})")
    shown = text(page, ".pane")
    assert f"Before {part} after" in shown  # put together from references that count UTF-16 units
    assert "1 of 2 kept" in shown
    assert "cosine 0.12 < 0.35" in shown
    assert "1 of its 2 snippets kept" in shown
    assert "gold document" in shown
    assert "animal of Belize" in shown
    items = page.evaluate("[...document.querySelectorAll('.pane .items .text')].map(e => e.firstChild.textContent)")
    assert part in items
    assert whole[:19] in items


def test_two_runs_are_compared(page: Page, tmp_path: Path) -> None:
    page.open(report(tmp_path, [row(0), row(1, answer="No idea.")], [row(0), row(1)]))
    values = "[...document.querySelectorAll('.entry .value')].map(e => e.textContent)"
    assert page.evaluate(values) == ["1 / 1", "0 / 1"]
    choose(page, "run", "1")
    choose(page, "filter", "wins against run0 <img src=x onerror=window.ran=9>")
    assert page.evaluate(values) == ["0 / 1"]
    open_question(page, "q-1")
    assert page.evaluate("document.querySelectorAll('.pane .run').length") == 2


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_and_words_stand_out(page: Page, tmp_path: Path, width: int, scheme: str) -> None:
    page.look(width, 800, scheme)
    page.open(report(tmp_path, many_rows(30)))
    open_question(page, "q-3")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    names = ["--paper", "--ink", "--muted", "--bad", "--good", "--accent"]
    value = "getComputedStyle(document.documentElement).getPropertyValue"
    colours = [page.evaluate(f"{value}({name!r}).trim()") for name in names]
    paper, *others = map(_luminance, colours)
    for name, light in zip(colours[1:], others, strict=True):  # WCAG 2.2, 1.4.3: 4.5 to 1
        assert (max(paper, light) + 0.05) / (min(paper, light) + 0.05) >= 4.5, name
    page.look(1280, 900)


def test_nothing_is_cut_off_in_print(page: Page, tmp_path: Path) -> None:
    page.look(700, 900, media="print")
    page.open(report(tmp_path, many_rows(30)))
    open_question(page, "q-3")
    cut = "[...document.querySelectorAll('.wide, .pane, .list')].filter(e => e.scrollWidth > e.clientWidth + 1 || "
    cut += "e.scrollHeight > e.clientHeight + 1).filter(e => getComputedStyle(e).overflow !== 'visible').length"
    assert page.evaluate(cut) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    page.look(1280, 900)


@pytest.mark.slow
def test_five_thousand_questions_open_in_three_seconds(page: Page, tmp_path: Path) -> None:
    file = report(tmp_path, many_rows(5000))
    assert file.stat().st_size <= 60e6
    assert page.open(file) < 3
    assert "5,000 questions" in text(page, ".count")
    open_question(page, "q-0")
    assert "Information:" in text(page, ".pane")


def _luminance(colour: str) -> float:
    """Relative luminance of #rrggbb or #rgb (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
