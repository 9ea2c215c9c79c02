"""terms: something for every language, the same for passages and queries."""

import pytest

from pipeline.lexical.terms import term_keys, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat, the CAT.", ["the", "cat", "the", "cat"]),
        ("don't snake_case 3.5 A1", ["don", "t", "snake", "case", "3", "5", "a1"]),
        ("Straße ﬁne café", ["strasse", "fine", "café"]),
        ("cafe\u0301", ["café"]),
        ("kilo\u00adgram zero\u200bwidth", ["kilogram", "zero", "width"]),
        ("ＦＵＬＬ　ｗｉｄｔｈ", ["full", "width"]),
        ("东京都", ["东", "东京", "京", "京都", "都"]),
        ("中a文 1", ["中", "a", "文", "1"]),
        ("한국은", ["한", "한국", "국", "국은", "은"]),
        ("ที่นี่", ["ที่", "ที่นี่", "นี่"]),
        ("الجمهورية العربية", ["الجمهورية", "العربية"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Ἀθῆναι ΣΟΦΟΣ", ["ἀθῆναι", "σοφοσ"]),
        ("", []),
        (" .,!? — …", []),
        ("\ud800 lone", ["lone"]),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_ascii_goes_the_same_way_as_any_text() -> None:
    text = "The Cat's 3.5 kilo_grams; it is A1!"
    assert [*terms(text), "é"] == terms(f"{text} é")


def test_keys_depend_on_the_term_alone() -> None:
    assert term_keys(["b", "a", "b"]).tolist() == [term_keys([word])[0] for word in ("b", "a", "b")]
    assert len(set(term_keys(map(str, range(10_000))).tolist())) == 10_000
    assert term_keys([]).shape == (0,)
