"""PLAID's inner loops, compiled by numba. Only the codec, the shard writer and the searcher import this module.

Shapes: K centroids, `dim` dimensions, N passages in the shard, T token rows of a batch of queries. Query q owns the
rows token_start[q]:token_start[q + 1]. `tasks` are rows (query, first, last) that cut a flat candidate list into pieces
of like size, so that one query keeps every core busy as well as a thousand do.
"""

# numba infers the kernels' types from the arrays they get; the docstrings state them.
# mypy: allow-untyped-defs

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from numba import njit, prange

# numba's fallback threading layer must not be entered by two threads at once.
KERNEL_LOCK = Lock()
# Only loops over prange run in parallel; the other transformations would multiply the compile time.
_LOOPS = {"prange": True} | dict.fromkeys(
    ("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion"), False
)
PRUNED = np.float32(-9999.0)  # what colbert-ai gives a query token for which a passage has no centroid left


def _compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """njit, cached on disk where a folder for it can be written: the second process then compiles nothing."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # numba found no writable folder for its cache
            return njit(nogil=True, **options)(function)

    return decorate


@_compiled(parallel=_LOOPS)
def best_two(scores, code, gap):
    """Best column of each row of scores [n, K] into code int32 [n]; its lead over the second best into gap [n]."""
    for i in prange(scores.shape[0]):
        best, second, where = np.float32(-np.inf), np.float32(-np.inf), 0
        for j in range(scores.shape[1]):
            score = scores[i, j]
            if score > second:
                if score > best:
                    best, second, where = score, best, j
                else:
                    second = score
        code[i] = where
        gap[i] = best - second


@_compiled(parallel=_LOOPS)
def merge_two(scores, rows, first, place, values):
    """Scores [m, members] of vectors `rows` [m], each once, merged into the best seen so far: place int32 [n], counted
    from `first`, and values [n, 2], the best and the second best score."""
    for i in prange(scores.shape[0]):
        row = rows[i]
        best, second, where = values[row, 0], values[row, 1], place[row]
        for j in range(scores.shape[1]):
            score = scores[i, j]
            if score > second:
                if score > best:
                    best, second, where = score, best, first + j
                else:
                    second = score
        values[row, 0], values[row, 1], place[row] = best, second, where


@_compiled(parallel=_LOOPS)
def pack_residuals(vectors, codes, centroids, cutoffs, nbits, packed):
    """Buckets of vectors [n, dim] minus their centroids, nbits each, low bit first, into packed uint8 [n, dim*nbits/8].

    The 2^nbits - 1 cutoffs are searched in nbits halvings; a value equal to a cutoff belongs below it.
    """
    for i in prange(vectors.shape[0]):
        for d in range(vectors.shape[1]):
            value = vectors[i, d] - centroids[codes[i], d]
            bucket, half = 0, 1 << (nbits - 1)
            while half > 0:
                if cutoffs[bucket + half - 1] < value:
                    bucket += half
                half >>= 1
            for b in range(nbits):
                bit = d * nbits + b
                packed[i, bit >> 3] |= ((bucket >> b) & 1) << (7 - (bit & 7))


@_compiled()
def count_pairs(codes, doclens, last, lengths):
    """Number of distinct passages of each centroid into lengths [K]; `last` int32 [K] starts at -1."""
    at = 0
    for pid in range(doclens.shape[0]):
        for _ in range(doclens[pid]):
            code = codes[at]
            at += 1
            if last[code] != pid:
                last[code] = pid
                lengths[code] += 1


@_compiled()
def fill_pairs(codes, doclens, last, free, pids):
    """Second pass of the counting sort: each distinct (centroid, pid) to pids, from free [K], the lists' starts."""
    at = 0
    for pid in range(doclens.shape[0]):
        for _ in range(doclens[pid]):
            code = codes[at]
            at += 1
            if last[code] != pid:
                last[code] = pid
                pids[free[code]] = pid
                free[code] += 1


@_compiled(parallel=_LOOPS)
def probe(by_token, token_start, threshold, cells, keep, by_centroid):
    """From by_token [rows, K], the scores of query tokens and centroids: each token's best cells int32 [T, ncells],
    the centroids that reach the threshold for some token, keep bool [queries, K], and the scores again with a query's
    tokens side by side, by_centroid [T * K].

    Query q begins at row token_start[q, 1]; its tokens count from token_start[q, 0]. Of equal centroids the lower
    number wins.
    """
    ncells, K = cells.shape[1], by_token.shape[1]
    for q in prange(keep.shape[0]):
        first, row = token_start[q, 0], token_start[q, 1]
        length = token_start[q + 1, 0] - first
        best = np.full((length, ncells), -np.inf, np.float32)
        for tile in range(0, K, 16):  # a cache line of scores, so that both tables are walked in whole lines
            for t in range(length):
                for code in range(tile, min(tile + 16, K)):
                    score = by_token[row + t, code]
                    by_centroid[first * K + code * length + t] = score
                    if score >= threshold:
                        keep[q, code] = True
                    if score > best[t, ncells - 1]:
                        slot = ncells - 1
                        while slot > 0 and best[t, slot - 1] < score:
                            best[t, slot] = best[t, slot - 1]
                            cells[first + t, slot] = cells[first + t, slot - 1]
                            slot -= 1
                        best[t, slot] = score
                        cells[first + t, slot] = code


@_compiled(parallel=_LOOPS)
def gather(cells, token_start, ivf, ivf_start, num_passages, out_start, out, count):
    """Distinct passages of each query's cells, ascending, into out from out_start[q]; how many into count[q]."""
    for q in prange(count.shape[0]):
        seen = np.zeros(num_passages, np.bool_)
        for t in range(token_start[q, 0], token_start[q + 1, 0]):
            for c in range(cells.shape[1]):
                for i in range(ivf_start[cells[t, c]], ivf_start[cells[t, c] + 1]):
                    seen[ivf[i]] = True
        at = out_start[q]
        for pid in range(num_passages):
            if seen[pid]:
                out[at] = pid
                at += 1
        count[q] = at - out_start[q]


@_compiled(parallel=_LOOPS)
def approximate(tasks, pids, codes, offsets, first_pid, by_centroid, token_start, keep, prune, scores):
    """MaxSim over centroids in place of vectors, without the pruned ones if `prune` (PLAID, section 4.2)."""
    K = keep.shape[1]
    for i in prange(tasks.shape[0]):
        q = tasks[i, 0]
        length = token_start[q + 1, 0] - token_start[q, 0]
        table = by_centroid[token_start[q, 0] * K : token_start[q + 1, 0] * K]
        best = np.empty(length, np.float32)
        for c in range(tasks[i, 1], tasks[i, 2]):
            best[:] = PRUNED
            passage = pids[c] - first_pid
            for e in range(offsets[passage], offsets[passage + 1]):
                code = codes[e]
                if prune and not keep[q, code]:
                    continue
                row = table[code * length : (code + 1) * length]
                for t in range(length):
                    best[t] = row[t] if row[t] > best[t] else best[t]
            total = np.float32(0)
            for t in range(length):
                total += best[t]
            scores[c] = total


# Sums may be reordered, else they are not vectorised; the order is the same for a passage whatever the batch.
_FAST = {"reassoc", "contract", "nsz"}


@_compiled(fastmath=_FAST)
def _decompress(code, residual, centroids, weights, renormalise, vector):
    """Centroid plus the weights of the residual's bytes into vector [dim]; returns the scale it still needs."""
    per_byte = weights.shape[1]
    for byte in range(residual.shape[0]):
        packed = residual[byte]
        for j in range(per_byte):
            d = byte * per_byte + j
            vector[d] = centroids[code, d] + weights[packed, j]
    if not renormalise:
        return np.float32(1)
    square = np.float32(0)
    for d in range(vector.shape[0]):
        square += vector[d] * vector[d]
    return np.float32(1) / max(np.sqrt(square), np.float32(1e-12))


@_compiled(parallel=_LOOPS, fastmath=_FAST)
def exact(
    tasks, pids, codes, residuals, offsets, first_pid, centroids, weights, rows, token_start, renormalise, scores
):
    """MaxSim over decompressed vectors, a token's maximum starting at 0 as in colbert-ai on the CPU.

    weights float32 [256, 8 / nbits]: bucket weights of the values that a byte holds. rows float32 [rows, dim]: query
    q's tokens from token_start[q, 1], then zeros, to a multiple of 4 at least: a row of zeros adds nothing to the sum.
    Vectors go in pairs and tokens in fours, which halves the loads; an odd last vector is paired with itself.
    """
    zero = np.float32(0)
    for i in prange(tasks.shape[0]):
        q = tasks[i, 0]
        row = token_start[q, 1]
        length = (token_start[q + 1, 0] - token_start[q, 0] + 3) // 4 * 4
        best = np.empty(length, np.float32)
        one, two = np.empty(centroids.shape[1], np.float32), np.empty(centroids.shape[1], np.float32)
        for c in range(tasks[i, 1], tasks[i, 2]):
            best[:] = 0
            passage = pids[c] - first_pid
            for e in range(offsets[passage], offsets[passage + 1], 2):
                f = min(e + 1, offsets[passage + 1] - 1)
                scale = _decompress(codes[e], residuals[e], centroids, weights, renormalise, one)
                scale2 = _decompress(codes[f], residuals[f], centroids, weights, renormalise, two)
                for t in range(0, length, 4):
                    a0, a1, a2, a3 = zero, zero, zero, zero
                    b0, b1, b2, b3 = zero, zero, zero, zero
                    q0, q1, q2, q3 = rows[row + t], rows[row + t + 1], rows[row + t + 2], rows[row + t + 3]
                    for d in range(one.shape[0]):
                        a0 += q0[d] * one[d]
                        a1 += q1[d] * one[d]
                        a2 += q2[d] * one[d]
                        a3 += q3[d] * one[d]
                        b0 += q0[d] * two[d]
                        b1 += q1[d] * two[d]
                        b2 += q2[d] * two[d]
                        b3 += q3[d] * two[d]
                    best[t] = max(best[t], a0 * scale, b0 * scale2)
                    best[t + 1] = max(best[t + 1], a1 * scale, b1 * scale2)
                    best[t + 2] = max(best[t + 2], a2 * scale, b2 * scale2)
                    best[t + 3] = max(best[t + 3], a3 * scale, b3 * scale2)
            total = zero
            for t in range(length):
                total += best[t]
            scores[c] = total
