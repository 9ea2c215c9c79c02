"""Sentence vectors by sentence-transformers: what snippet filters and dense stages compare by cosine."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.models.loading import Precision, choose_precision, quiet


class SentenceEmbedder:
    """One unit vector a text. A text longer than the model reads is cut there, as the model's authors publish it."""

    def __init__(
        self,
        folder: Path,
        dtype: Precision = "auto",
        device: str | None = None,
        threads: int | None = None,
        batch_size: int = 64,
        trust_remote_code: bool = False,
    ) -> None:
        """`threads`: of this process's torch, on CPU. `trust_remote_code`: for models that bring their own code."""
        import torch
        from sentence_transformers import SentenceTransformer

        if threads:
            torch.set_num_threads(threads)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype = choose_precision(dtype, device)
        self._batch_size = batch_size
        with quiet():
            self._model = SentenceTransformer(
                str(folder),
                device=device,
                model_kwargs={"dtype": getattr(torch, self.dtype)},
                trust_remote_code=trust_remote_code,
            ).eval()
        self.dim = int(self._model.encode([""], show_progress_bar=False).shape[1])

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [len(texts), dim], rows of unit length, in the order of `texts`."""
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        vectors = self._model.encode(
            list(texts), batch_size=self._batch_size, show_progress_bar=False, convert_to_tensor=True
        ).float()
        # Normalised in float32 here: not every model ends with a Normalize module, and bfloat16 rounds the length.
        return (vectors / vectors.norm(dim=1, keepdim=True).clamp_min(1e-12)).cpu().numpy()
