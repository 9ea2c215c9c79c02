"""Who is paired with whom: two ranked lists joined one to one (BRMGR, arXiv 2412.18800).

With scores b_1 >= b_2 >= ... and c_1 >= c_2 >= ... pairing by rank maximises the sum of b_i * c_p(i) over all
permutations p (rearrangement inequality; reversed, it is the least). Under the sum of log b_i + log c_p(i), the log of
the product of all pairs, every permutation gives the same: there the pairing has nothing to decide.
"""

import random
from typing import Literal

import numpy as np

Method = Literal["rank", "random", "reversed", "hungarian"]


def pairing(method: Method, size: int, seed: int = 0, joint: np.ndarray | None = None) -> list[int]:
    """For each of the `size` best of one list, best first, the position of its partner among the best of the other.

    rank: the same position. reversed: counted from the other end. random: a permutation drawn with `seed`. hungarian:
    the permutation with the largest sum of `joint` [size, size], scores of each possible pair.
    """
    if method == "rank":
        return list(range(size))
    if method == "reversed":
        return list(range(size))[::-1]
    if method == "random":
        return random.Random(seed).sample(range(size), size)
    from scipy.optimize import linear_sum_assignment

    if joint is None or joint.shape != (size, size):
        raise ValueError(f"hungarian pairing of {size} wants joint scores [{size}, {size}]")
    return [int(partner) for partner in linear_sum_assignment(joint, maximize=True)[1]]
