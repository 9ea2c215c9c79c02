"""Nearest centroids of token vectors: by comparing all of them, or those of the cells nearest to the vector.

At 2^20 centroids of 128 dimensions a comparison with all is 268 MFLOP a token, more than BERT-base itself. Cells (a
k-means of the centroids, as in the coarse quantiser of an inverted file: Jégou et al. 2011, section 4) leave
cells + PROBES * centroids / cells of them to compare.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.plaid.kmeans import kmeans

if TYPE_CHECKING:
    import torch

PROBES = 32  # cells looked into
_CENTROIDS_PER_CELL = 256
_SCORE_BYTES = 1 << 28  # of the block of vectors x centroids in memory at a time
_ROWS_OF_CELLS = 1 << 14  # vectors at a time where cells are probed: each cell then meets many of them
# Two float32 dot products of unit vectors, summed in any order, differ by less: closer centroids are compared again.
_NEAR = 4e-6


def make_cells(centroids: np.ndarray, seed: int, device: str = "cpu") -> np.ndarray:
    """The cell of each centroid, int32 [K], for centroids float32 [K, dim]: about K / 256 cells."""
    wanted = max(1, len(centroids) // _CENTROIDS_PER_CELL)
    middles = kmeans(centroids, wanted, 4, np.random.default_rng(seed), device)
    cells = Assigner(middles / np.maximum(np.linalg.norm(middles, axis=1, keepdims=True), 1e-12), None, device)
    return np.unique(cells(centroids), return_inverse=True)[1].astype(np.int32)


class Assigner:
    """Finds nearest centroids on `device`, whose memory holds the centroids from now on.

    centroids float32 [K, dim]; cells int32 [K], from `make_cells`, or None to compare with all.
    """

    def __init__(self, centroids: np.ndarray, cells: np.ndarray | None, device: str = "cpu") -> None:
        import torch

        self._device, self._centroids, self._middles = device, centroids, None
        self._numbers = np.arange(len(centroids))
        if cells is not None:
            self._numbers = np.argsort(cells, kind="stable")
            self._starts = np.concatenate(([0], np.cumsum(np.bincount(cells))))
            sums = np.zeros((len(self._starts) - 1, centroids.shape[1]))
            np.add.at(sums, cells, centroids)
            sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
            self._middles = torch.from_numpy(sums.astype(np.float32)).to(device)
            centroids = centroids[self._numbers]
        self._table = torch.from_numpy(centroids).to(device)
        # Kept between calls: a third of the time of a product on a CPU went into getting fresh memory for its result.
        self._rows = max(16, _SCORE_BYTES // (4 * len(centroids)))
        self._scores = torch.empty(0, len(centroids), device=device)

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Centroid with the largest dot product, int32 [E], for vectors float32 [E, dim]; of equal ones the first.

        Near ties are settled in float64 among all centroids: without cells the result is the same for any cut into
        batches, number of threads or device. With cells a vector's nearest centroid is missed where it lies in a cell
        that is none of the PROBES nearest.
        """
        import torch

        at_once = self._rows if self._middles is None else _ROWS_OF_CELLS
        best, gap = np.empty(len(vectors), np.int32), np.empty(len(vectors), np.float32)
        for start in range(0, len(vectors), at_once):
            part = slice(start, start + at_once)
            block = torch.from_numpy(vectors[part]).to(self._device)
            if self._middles is None:
                self._all(block, best[part], gap[part])
            else:
                self._probed(block, self._middles, best[part], gap[part])
        codes = self._numbers[best].astype(np.int32)
        near = np.flatnonzero(gap < _NEAR)
        for start in range(0, len(near), self._rows):
            tied = near[start : start + self._rows]
            codes[tied] = self._settled(vectors[tied])
        return codes

    def _products(self, block: "torch.Tensor") -> "torch.Tensor":
        """block [n, dim] times the table: [n, K], overwritten by the next call."""
        import torch

        if len(self._scores) < len(block):
            self._scores = torch.empty(len(block), len(self._table), device=self._device)
        return torch.mm(block, self._table.T, out=self._scores[: len(block)])

    def _all(self, block: "torch.Tensor", best: np.ndarray, gap: np.ndarray) -> None:
        """Rows of the table that are nearest to block [n, dim] into best [n], their lead over the next into gap [n]."""
        from pipeline.plaid.kernels import KERNEL_LOCK, best_two

        scores = self._products(block)
        if self._device == "cpu":
            with KERNEL_LOCK:
                best_two(scores.numpy(), best, gap)
            return
        values, places = top_two(scores)
        best[:], gap[:] = places.cpu().numpy(), (values[:, 0] - values[:, 1]).cpu().numpy()

    def _probed(self, block: "torch.Tensor", middles: "torch.Tensor", best: np.ndarray, gap: np.ndarray) -> None:
        """As `_all`, among the rows of each vector's nearest cells. Cell by cell, for a product of matrices each."""
        probes = (block @ middles.T).topk(min(PROBES, len(middles)), dim=1, sorted=False).indices
        by_cell = probes.flatten().argsort(stable=True)
        rows = by_cell // probes.shape[1]
        ends = probes.flatten().bincount(minlength=len(middles)).cumsum(0).tolist()
        found = Found(len(block), self._device)
        for cell, (first, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if first < end:
                here = rows[first:end]
                inside = self._table[self._starts[cell] : self._starts[cell + 1]]
                found.merge(block[here] @ inside.T, here, int(self._starts[cell]))
        best[:] = found.place.cpu().numpy()
        gap[:] = (found.values[:, 0] - found.values[:, 1]).cpu().numpy()

    def _settled(self, vectors: np.ndarray) -> np.ndarray:
        """Nearest centroids [n] of vectors [n, dim], their scores compared in float64 where float32 cannot tell."""
        import torch

        scores = self._products(torch.from_numpy(vectors).to(self._device))
        candidates = scores >= scores.amax(dim=1, keepdim=True) - 2 * _NEAR
        row, place = (index.cpu().numpy() for index in candidates.nonzero(as_tuple=True))
        number = self._numbers[place]
        exact = np.einsum("nd,nd->n", vectors[row].astype(np.float64), self._centroids[number].astype(np.float64))
        most = np.full(len(vectors), -np.inf)
        np.maximum.at(most, row, exact)
        first = np.full(len(vectors), len(self._numbers))
        equal = exact >= most[row] - 1e-13
        np.minimum.at(first, row[equal], number[equal])
        return first


class Found:
    """The best row of a table seen so far for each of n vectors: place int32 [n]; values float32 [n, 2], its score and
    the second best."""

    def __init__(self, n: int, device: str) -> None:
        import torch

        self.place = torch.zeros(n, dtype=torch.int32, device=device)
        self.values = torch.full((n, 2), -torch.inf, device=device)

    def merge(self, scores: "torch.Tensor", rows: "torch.Tensor", first: int) -> None:
        """scores [m, members] of the vectors `rows` [m], each once, and the rows first, first + 1, ... of the table."""
        import torch

        if scores.device.type == "cpu":
            from pipeline.plaid.kernels import KERNEL_LOCK, merge_two

            with KERNEL_LOCK:
                merge_two(scores.numpy(), rows.numpy(), first, self.place.numpy(), self.values.numpy())
            return
        values, places = top_two(scores)
        before = self.values[rows]
        self.place[rows] = torch.where(values[:, 0] > before[:, 0], first + places, self.place[rows])
        self.values[rows] = torch.cat([before, values], dim=1).topk(2, dim=1).values


def top_two(scores: "torch.Tensor") -> tuple["torch.Tensor", Any]:
    """The two largest values [n, 2] of each row of scores [n, m], and the place of the first, int32 [n]; of a single
    column the second value is -inf."""
    import torch

    if scores.shape[1] == 1:
        scores = torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)
    top = scores.topk(2, dim=1)
    return top.values, top.indices[:, 0].int()
