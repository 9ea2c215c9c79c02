"""Texts to late-interaction vectors: one unit vector a token (ColBERT, arXiv 2004.12832, section 3.2).

sentence-transformers' MultiVectorEncoder loads and defines the model; its forward pass is driven here by batches of
equal cost instead of equal count.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import punctuation
from typing import Any

import numpy as np

from pipeline.errors import InputError
from pipeline.models.loading import Precision, choose_precision, quiet
from pipeline.plaid.checkpoint import read_settings

log = logging.getLogger(__name__)


class LateInteractionEncoder:
    """Encodes passages and queries with the checkpoint in `folder`.

    `dtype` "auto" is bfloat16 where the processor has it (`dtype` then says which was taken); vectors are float32
    always. `batch_tokens`: padded tokens of one forward pass; where the device's memory is too small for them they are
    halved, and stay so. `threads`: of this process's torch, on CPU.
    `doc_maxlen`: tokens of a passage with its markers, where it should differ from the checkpoint's own setting.
    Raises InputError if the folder is not a late-interaction checkpoint or `doc_maxlen` exceeds what the model reads.
    """

    def __init__(
        self,
        folder: Path,
        dtype: Precision = "auto",
        device: str | None = None,
        batch_tokens: int = 8192,
        threads: int | None = None,
        doc_maxlen: int | None = None,
    ) -> None:
        settings = read_settings(folder)
        import torch
        from sentence_transformers import MultiVectorEncoder

        if threads:
            torch.set_num_threads(threads)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype = choose_precision(dtype, self.device)
        with quiet():
            self._model = MultiVectorEncoder(
                str(folder), device=self.device, model_kwargs={"dtype": getattr(torch, self.dtype)}
            ).eval()
        self._transformer: Any = self._model[0]
        self._tokenizer: Any = self._model.tokenizer
        self._markers = settings.markers
        self.tokenizer_folder = folder
        self.batch_tokens = batch_tokens
        self.dim = int(self._model.get_embedding_dimension() or settings.dim)
        self.model_maxlen = int(self._tokenizer.model_max_length)
        self.doc_maxlen = doc_maxlen or settings.doc_maxlen
        self.query_maxlen = settings.query_maxlen
        if self.dim != settings.dim:
            raise InputError(f"{folder}: its settings say dim {settings.dim}, its projection has {self.dim}.")
        if self.doc_maxlen > self.model_maxlen:
            raise InputError(
                f"{folder}: doc_maxlen {self.doc_maxlen} is more than the {self.model_maxlen} it can read."
            )
        if settings.markers:
            self._skip_as_colbert_ai()

    def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Vectors float32 [sum of doclens, dim], passage after passage, and doclens int32 [len(texts)].

        Punctuation tokens have no vector where the checkpoint masks them; [CLS], marker and [SEP] always have one.
        Raises InputError for a passage longer than `doc_maxlen`: nothing is cut.
        """
        return self.encode_tokens(self.tokenise_documents(texts))

    def tokenise_documents(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each passage with its markers; another thread may be in `encode_tokens` meanwhile.

        Raises InputError for a passage longer than `doc_maxlen`.
        """
        ids = self._tokenise(texts, "document")
        for position, tokens in enumerate(ids):
            if len(tokens) > self.doc_maxlen:
                raise InputError(
                    f"passage {position} of {len(ids)} has {len(tokens)} tokens with its markers, more than the "
                    f"doc_maxlen of {self.doc_maxlen}; split the corpus into passages of at most "
                    f"{self.doc_maxlen - 3} tokens."
                )
        return ids

    def encode_tokens(self, tokens: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        """What `encode_documents` gives for the texts that `tokenise_documents` made `tokens` of.

        Raises InputError where the device's memory is too small for a single passage.
        """
        return self._encode(tokens, [len(ids) for ids in tokens], "document")

    def encode_queries(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Per query float32 [tokens, dim]: `query_maxlen` vectors ([MASK] fills the room), more for a longer query.

        colbert-ai cuts at `query_maxlen`; here a longer query keeps all its tokens, as if `query_maxlen` were its
        length. What exceeds the model's own maximum is cut, with a warning that names the query.
        """
        ids = self._tokenise(texts, "query")
        for position, tokens in enumerate(ids):
            if len(tokens) > self.model_maxlen:
                log.warning(
                    "query %d has %d tokens, the model reads %d: the rest is not searched for (%s...)",
                    position,
                    len(tokens),
                    self.model_maxlen,
                    texts[position][:60],
                )
                ids[position] = [*tokens[: self.model_maxlen - 1], tokens[-1]]
        least = self.query_maxlen if self._transformer.query_expansion else 0
        vectors, lengths = self._encode(ids, [max(least, len(tokens)) for tokens in ids], "query")
        return np.split(vectors, np.cumsum(lengths)[:-1]) if len(lengths) else []

    def _skip_as_colbert_ai(self) -> None:
        """Resolves the punctuation skiplist as colbert-ai does, through the tokenizer instead of the vocabulary.

        They differ where a lone symbol is not a token of its own (sentencepiece). A literal [PAD] is skipped, too.
        """
        from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

        mask = next(module for module in self._model if isinstance(module, MultiVectorMask))
        if mask.skiplist_words:
            first = [self._tokenizer(symbol, add_special_tokens=False)["input_ids"][0] for symbol in punctuation]
            mask.skiplist_words = self._tokenizer.convert_ids_to_tokens([*first, self._tokenizer.pad_token_id])
            mask.resolve_with_tokenizer(self._tokenizer)

    def _tokenise(self, texts: Sequence[str], task: str) -> list[list[int]]:
        """Token ids of each text with special tokens and its marker or prompt, never cut."""
        if not texts:
            return []
        if self._markers is None:
            prompt = self._model.prompts.get(task) or ""
            return self._tokenizer([prompt + text for text in texts], verbose=False)["input_ids"]
        first, *last = self._tokenizer("")["input_ids"]
        marker = self._tokenizer.convert_tokens_to_ids(self._markers[task == "document"])
        plain = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [[first, marker, *tokens, *last] for tokens in plain]

    def _encode(self, ids: list[list[int]], widths: list[int], task: str) -> tuple[np.ndarray, np.ndarray]:
        """Vectors and their counts in the order of `ids`; `widths` are lengths with query expansion."""
        counts = np.zeros(len(ids), dtype=np.int32)
        done: list[tuple[list[int], np.ndarray]] = []
        left = list(batches(widths, self.batch_tokens))
        while left:
            rows = left[0]
            found = self._forward_or_none([ids[row] for row in rows], [widths[row] for row in rows], task)
            if found is None:
                self._halve([widths[row] for row in rows])
                undone = [row for batch in left for row in batch]
                smaller = batches([widths[row] for row in undone], self.batch_tokens)
                left = [[undone[place] for place in batch] for batch in smaller]
                continue
            vectors, counts[rows] = found
            done.append((rows, vectors))
            left = left[1:]
        starts = np.cumsum(counts, dtype=np.int64) - counts
        out = np.empty((int(counts.sum()), self.dim), dtype=np.float32)
        for rows, vectors in done:
            at = 0
            for row in rows:
                out[starts[row] : starts[row] + counts[row]] = vectors[at : at + counts[row]]
                at += counts[row]
        return out, counts

    def _forward_or_none(
        self, ids: list[list[int]], widths: list[int], task: str
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """What `_forward` gives, or None where the device's memory is too small for it."""
        import torch

        try:
            return self._forward(ids, widths, task)
        except torch.OutOfMemoryError:
            pass  # outside of this clause nothing refers to the failed pass's tensors any more
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()
        return None

    def _halve(self, widths: list[int]) -> None:
        """Less for one forward pass than the one that failed on texts of these `widths`, from now on.

        A text's vectors then have other batch mates than on a device with more memory, which can change their last
        bits: hence the warning. Raises InputError where there was one text already.
        """
        if len(widths) == 1:
            raise InputError(
                f"{self.tokenizer_folder}: the memory of {self.device} is too small for one text of {widths[0]} "
                "tokens; free it of other processes, split the corpus into shorter passages (split.size), or set the "
                "model's dtype to bfloat16"
            )
        self.batch_tokens = len(widths) * max(widths) // 2
        log.warning(
            "out of memory on %s: from now on %d padded tokens a forward pass; set models.NAME.batch_tokens to that or "
            "less for the next build, so that it has the same batches wherever it runs",
            self.device,
            self.batch_tokens,
        )

    def _forward(self, ids: list[list[int]], widths: list[int], task: str) -> tuple[np.ndarray, np.ndarray]:
        """One batch: vectors float32 [sum of counts, dim] row after row, and counts [rows]."""
        import torch

        expansion = self._transformer.query_expansion if task == "query" else None
        shape = (len(ids), max(widths))
        input_ids = torch.full(shape, self._tokenizer.pad_token_id or 0)
        attention = torch.zeros(shape, dtype=torch.long)
        expanded = torch.zeros(shape, dtype=torch.bool)
        for row, (tokens, width) in enumerate(zip(ids, widths, strict=True)):
            input_ids[row, : len(tokens)] = torch.tensor(tokens)
            attention[row, : len(tokens)] = 1
            if expansion:
                expanded[row, len(tokens) : width] = True
        features: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention}
        if expansion:
            input_ids[expanded] = self._expansion_id(expansion["token"])
            if expansion["attend"]:
                attention[expanded] = 1
            features["query_expansion_positions"] = expanded
        with torch.inference_mode():
            features = {name: tensor.to(self._model.device) for name, tensor in features.items()}
            features = self._model(features, task=task)
            kept = features["attention_mask"].bool()
            vectors = features["token_embeddings"][kept].float()
            vectors = torch.nn.functional.normalize(vectors, dim=-1)  # bfloat16 rounds the length as well
            return vectors.cpu().numpy(), kept.sum(dim=1).cpu().numpy()

    def _expansion_id(self, token: str | None) -> int:
        if token is not None:
            return self._tokenizer.convert_tokens_to_ids(token)
        mask = self._tokenizer.mask_token_id
        return self._tokenizer.eos_token_id if mask is None else mask


def batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Positions of texts of like length, at most `batch_tokens` padded tokens a batch (always at least one text).

    Longest first, ties in given order: the make-up of batches follows from `lengths` alone.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()
    start = 0
    while start < len(order):
        size = max(1, batch_tokens // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size
