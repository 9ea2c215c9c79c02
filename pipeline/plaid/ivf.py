"""The inverted file of a shard: centroid -> passages that have a token there."""

import numpy as np


def invert(codes: np.ndarray, doclens: np.ndarray, num_centroids: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct passages of every centroid, in colbert-ai's layout of `ivf.pid.pt`.

    codes int32 [E], doclens int32 [N] with sum E -> pids int32, ascending within a centroid, the lists one after
    another and zeros at the end; lengths int64 [K]. A counting sort: two passes, memory linear in the shard.
    """
    from pipeline.plaid.kernels import count_pairs, fill_pairs

    lengths = np.zeros(num_centroids, np.int64)
    count_pairs(codes, doclens, np.full(num_centroids, -1, np.int32), lengths)
    ends = np.cumsum(lengths)
    total, longest = int(ends[-1]), int(lengths.max())
    # colbert-ai reads strided windows as long as the longest list; the last window must not leave the tensor.
    padding = longest if ends[-1] - lengths[-1] + longest > total else 0
    pids = np.zeros(total + padding, np.int32)
    fill_pairs(codes, doclens, np.full(num_centroids, -1, np.int32), ends - lengths, pids)
    return pids, lengths
