"""BM25: numbers worked by hand, the library's own ranking, and the same scores however the passages are cut up."""

import itertools
import math
from pathlib import Path

import bm25s
import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.corpus.factbook import write_factbook
from pipeline.lexical.postings import Postings
from pipeline.lexical.statistics import Statistics
from pipeline.lexical.terms import terms
from tests.pipeline.lexical.shards import make_shards, ranked


def _texts(count: int = 60) -> list[str]:
    rng = np.random.default_rng(1)
    words = np.array([f"w{n}" for n in range(50)])
    odds = 1 / np.arange(1, 51)
    sizes = rng.integers(1, 40, count)
    return [" ".join(rng.choice(words, size, p=odds / odds.sum())) for size in sizes]


def test_hand_worked_numbers(tmp_path: Path) -> None:
    # N = 3; lengths 2, 3, 4, mean 3; k1 = 1, b = .5.
    shards = make_shards(tmp_path, [["red fish", "red red dog"], ["blue cat and dog"]], k1=1, b=0.5)
    red = math.log(1 + 1.5 / 2.5)  # in 2 of 3 passages
    dog = red
    blue = math.log(1 + 2.5 / 1.5)  # in 1 of 3
    first = red * 1 / (1 + (0.5 + 0.5 * 2 / 3))
    second = red * 2 / (2 + (0.5 + 0.5 * 3 / 3))
    (for_red, for_both, for_blue, doubled) = ranked(shards, ["red", "Red, dog!", "blue", "blue blue"])
    assert for_red == [(1, pytest.approx(second)), (0, pytest.approx(first))]
    assert second == pytest.approx(0.3133357)
    damped = 1 / (1 + (0.5 + 0.5 * 4 / 3))
    assert for_both == [
        (1, pytest.approx(second + dog * 1 / 2)),
        (0, pytest.approx(first)),
        (2, pytest.approx(dog * damped)),
    ]
    assert for_blue == [(2, pytest.approx(blue * damped))]
    assert doubled == [(2, pytest.approx(2 * blue * damped))], "a repeated query term counts twice"


def test_equals_the_library_over_one_index(tmp_path: Path) -> None:
    texts = _texts()
    library = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    library.index([terms(text) for text in texts], show_progress=False)
    queries = ["w0 w1 w2", "w10 w49", "w3", "w7 w7 w20"]
    ours = ranked(make_shards(tmp_path, [texts[:7], texts[7:40], texts[40:]]), queries, len(texts))
    for query, hits in zip(queries, ours, strict=True):
        known = [term for term in terms(query) if term in library.vocab_dict]
        expected = library.get_scores(known)
        assert len(hits) == np.count_nonzero(expected)
        for pid, score in hits:
            assert score == pytest.approx(float(expected[pid]), rel=1e-5)


@pytest.mark.parametrize("cuts", [[30], [1, 2, 3], [0, 20, 20, 59]], ids=str)
@pytest.mark.parametrize("k", [1, 5, 1000])
def test_sharded_equals_unsharded(tmp_path: Path, cuts: list[int], k: int) -> None:
    texts = _texts()
    texts[20:26] = [texts[5]] * 6  # ties over shards
    parts = [texts[start:stop] for start, stop in itertools.pairwise([0, *cuts, len(texts)])]
    queries = ["w0", "w1 w30 w2", texts[5], "w48 unknown", "unknown"]
    one = ranked(make_shards(tmp_path / "one", [texts]), queries, k)
    assert ranked(make_shards(tmp_path / "many", parts), queries, k) == one
    for hits in one:
        assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
        assert all(score > 0 for _, score in hits)


def test_ties_keep_the_lower_pid_even_where_k_cuts_them(tmp_path: Path) -> None:
    shards = make_shards(tmp_path, [["same words"] * 30, ["same words"] * 30])
    (hits,) = ranked(shards, ["words"], 7)
    assert [pid for pid, _ in hits] == list(range(7))


@pytest.mark.parametrize("query", ["", "?!", "zebra", "zebra quagga", "𝄞"])
def test_no_known_term_means_no_hits(tmp_path: Path, query: str) -> None:
    assert ranked(make_shards(tmp_path, [["red fish"], ["blue cat"]]), [query, "red"], 5)[0] == []


def test_monotone_in_term_frequency_and_in_rarity(tmp_path: Path) -> None:
    texts = [" ".join(["star"] * n + ["pad"] * (20 - n)) for n in range(1, 20)]
    (hits,) = ranked(make_shards(tmp_path, [texts[:9], texts[9:]]), ["star"], 100)
    assert [pid for pid, _ in hits] == list(range(18, -1, -1))
    assert len({score for _, score in hits}) == 19
    texts = ["rare common", "common other", "common third"]
    rare, common = ranked(make_shards(tmp_path / "b", [texts]), ["rare", "common"], 1)
    assert rare[0][1] > common[0][1] > 0, "a term that every passage holds still counts"


def test_twenty_quotes_find_twenty_documents(tmp_path: Path) -> None:
    files = write_factbook(tmp_path / "corpus", pages=40)
    texts = [text for file in files for text in pq.read_table(file)["text"].to_pylist()]
    quotes = [" ".join(text.split()[200:215]) for text in texts[:20]]
    top = [hits[0][0] for hits in ranked(make_shards(tmp_path, [texts[:15], texts[15:]]), quotes, 3)]
    assert len(set(top)) >= 18
    assert sum(pid == n for n, pid in enumerate(top)) >= 18


def test_pages_in_any_script_are_found_in_an_english_collection(tmp_path: Path) -> None:
    pages = {
        "北京是中华人民共和国的首都": "中国的首都",
        "القاهرة هي عاصمة جمهورية مصر العربية": "عاصمة مصر",
        "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย": "เมืองหลวง",
        "서울은 대한민국의 수도이다": "수도",
    }
    shards = make_shards(tmp_path, [["The capital of France is Paris."] * 5, list(pages)])
    assert all(len(terms(page)) > 3 for page in pages)
    assert [hits[0][0] for hits in ranked(shards, list(pages.values()), 3)] == [5, 6, 7, 8]


def test_shards_without_terms_or_passages(tmp_path: Path) -> None:
    shards = make_shards(tmp_path, [["...", "!"], [], ["red"]])
    assert [pid for pid, _ in ranked(shards, ["red"])[0]] == [2]
    assert ranked(make_shards(tmp_path / "none", [["..."]]), ["red"]) == [[]]


def test_postings_count(tmp_path: Path) -> None:
    postings = Postings.of(["a b a", "", "b " * 300])
    assert postings.lengths.tolist() == [3, 0, 300]
    assert postings.counts.dtype == np.uint16, "as narrow as the counts allow"
    columns = [slice(*postings.indptr[n : n + 2]) for n in range(2)]
    held = [dict(zip(postings.indices[c].tolist(), postings.counts[c].tolist(), strict=True)) for c in columns]
    assert sorted(held, key=len) == [{0: 2}, {0: 1, 2: 300}]
    postings.save(tmp_path)
    assert Statistics.of([tmp_path]).tokens == 303


def test_k_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one passage"):
        ranked(make_shards(tmp_path, [["red"]]), ["red"], 0)
