"""What a corpus holds, from a seeded sample of its documents that is really split and tokenised. No model runs."""

import json
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from string import punctuation
from typing import Any

import numpy as np

from pipeline.corpus.plan import ShardPlan, Slice
from pipeline.corpus.split import make_splitter
from pipeline.errors import InputError
from pipeline.lexical.terms import terms
from pipeline.plaid.checkpoint import read_settings
from pipeline.plaid.estimate import Contents, EncoderShape
from pipeline.plaid.passages import PassageStore, write_passages
from pipeline.plaid.plan import Plan

GROUPS = 20  # random groups of the sample, whose spread gives the intervals (Wolter 2007, chapter 2)
BLOCK = 10  # neighbouring documents drawn together: a file's documents cost a read each time
_NUMBERS = ("passages", "vectors", "read", "store_bytes", "term_pairs")


@dataclass(frozen=True)
class Sampled:
    """Estimated contents of the whole corpus, and their 95% intervals: none where every document was read. `texts`: the
    sampled passages; `lengths`: tokens that the encoder reads of each."""

    contents: Contents
    documents: int
    intervals: dict[str, tuple[float, float]]
    texts: list[str]
    lengths: np.ndarray


def sample_corpus(plan: Plan, tokenizer: Path, documents: int, seed: int = 0) -> Sampled:
    """About `documents` documents of the plan's corpus, as GROUPS samples of random blocks of BLOCK documents.

    Raises InputError where no sampled document has text.
    """
    config = plan.config
    splitter = make_splitter(config.split.unit, config.split.size, config.split.overlap, tokenizer)
    counter = TokenCounter(tokenizer)
    total = sum(shard.documents for shard in plan.shards)
    found: list[Contents] = []
    texts: list[str] = []
    lengths: list[np.ndarray] = []
    for number, slices in enumerate(_drawn(plan, total, documents, np.random.default_rng(seed))):
        with tempfile.TemporaryDirectory() as folder:
            record = write_passages(ShardPlan(f"{number:05d}", slices), config.corpus, splitter, Path(folder))
            stored = sum(path.stat().st_size for path in Path(folder).iterdir())
            store = PassageStore(Path(folder) / "passages.arrow")
            group = [text for piece in range(store.pieces) for text in store.piece(piece)]
        read, vectors = counter.count(group)
        pairs = sum(len(set(terms(text))) for text in group)
        numbers = (len(group), int(vectors.sum()), int(read.sum()), stored, pairs)
        found.append(Contents(record["documents"], *numbers))
        texts += group
        lengths.append(read)
    looked_at = sum(part.documents for part in found)
    if not texts:
        raise InputError(
            f"corpus '{config.corpus.path}': none of {looked_at} documents looked at has text in column "
            f"'{config.corpus.text}'; set corpus.text to the right one"
        )
    whole = Contents(looked_at, *(sum(getattr(part, name) for part in found) for name in _NUMBERS)).scaled(total)
    return Sampled(whole, looked_at, _intervals(found, whole, looked_at / total), texts, np.concatenate(lengths))


class TokenCounter:
    """Counts tokens as LateInteractionEncoder would, from the checkpoint's tokenizer alone."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        settings = read_settings(folder)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._prompt, self._extra = "", 0
        if settings.markers is not None:  # colbert-ai's: a marker after the first special token, punctuation skipped
            self._extra = 1
            masked = _json(folder / "artifact.metadata").get("mask_punctuation", True)
            encoded = [self._tokenizer.encode(symbol, add_special_tokens=False).ids for symbol in punctuation]
            self._skipped = {ids[0] for ids in encoded if ids} if masked else set()
        else:
            top = _json(folder / "config_sentence_transformers.json")
            self._prompt = top.get("document_prefix") or (top.get("prompts") or {}).get("document") or ""
            known = (self._tokenizer.token_to_id(word) for word in top.get("skiplist_words") or [])
            self._skipped = {token for token in known if token is not None}

    def count(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """int64 [texts] each: tokens read, markers included, and those of them that keep a vector."""
        encodings = self._tokenizer.encode_batch([self._prompt + text for text in texts])
        read = np.array([len(encoding.ids) + self._extra for encoding in encodings], np.int64)
        skipped = [sum(token in self._skipped for token in encoding.ids) for encoding in encodings]
        return read, read - np.array(skipped, np.int64)


def encoder_shape(folder: Path) -> EncoderShape | None:
    """From the checkpoint's config.json; None where it does not say its layers and widths."""
    settings = read_settings(folder)
    modules = folder / "modules.json"
    inner = folder / json.loads(modules.read_text())[0]["path"] if modules.is_file() else folder
    said = _json(folder / "config.json") or _json(inner / "config.json")
    sizes = [said[name] for name in ("num_hidden_layers", "hidden_size", "intermediate_size") if name in said]
    return EncoderShape(settings.dim, *sizes) if len(sizes) == 3 else None


def _drawn(plan: Plan, total: int, documents: int, rng: np.random.Generator) -> list[list[Slice]]:
    """Slices of each random group, in corpus order; one group of everything where that is no more than asked for."""
    slices = [piece for shard in plan.shards for piece in shard.slices]
    if documents >= total:
        return [slices]
    ends = np.cumsum([math.ceil((piece.stop - piece.start) / BLOCK) for piece in slices])
    blocks = int(ends[-1])
    count = math.ceil(blocks * documents / total)  # row groups may be shorter than a block
    chosen = rng.choice(blocks, count, replace=False)
    return [[_block(slices, ends, int(n)) for n in np.sort(chosen[g::GROUPS])] for g in range(min(GROUPS, count))]


def _block(slices: list[Slice], ends: np.ndarray, number: int) -> Slice:
    at = int(np.searchsorted(ends, number, side="right"))
    piece = slices[at]
    start = piece.start + BLOCK * (number - (int(ends[at - 1]) if at else 0))
    return replace(piece, start=start, stop=min(piece.stop, start + BLOCK))


def _intervals(found: list[Contents], whole: Contents, share: float) -> dict[str, tuple[float, float]]:
    """95%, Student's t over the groups' own estimates, with the correction for a finite corpus."""
    if len(found) < 2:
        return {}
    from scipy.special import stdtrit

    width = float(stdtrit(len(found) - 1, 0.975)) * math.sqrt((1 - share) / len(found))
    intervals = {}
    for name in _NUMBERS:
        middle = getattr(whole, name)
        spread = float(np.std([getattr(part.scaled(whole.documents), name) for part in found], ddof=1))
        intervals[name] = (max(0.0, middle - width * spread), middle + width * spread)
    return intervals


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
