"""How a transformers model is loaded here: which precision, and without progress bars on the user's screen."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Precision = Literal["auto", "float32", "bfloat16", "float16"]


def choose_precision(wanted: Precision, device: str) -> str:
    """`wanted`, with "auto" resolved: bfloat16 where `device` computes in it natively, else float32.

    Without native instructions bfloat16 is emulated: on a Xeon with avx512 but no avx512_bf16, MiniLM made 800 to 1,100
    tokens a CPU second instead of 2,500 to 3,300 in float32. So a CPU has to list avx512_bf16 or amx_bf16.
    """
    import torch

    if wanted != "auto":
        return wanted
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device != "cpu":
        return "float32"
    has = torch.cpu.get_capabilities()
    return "bfloat16" if has.get("avx512_bf16") or has.get("amx_bf16") else "float32"


@contextmanager
def quiet() -> Iterator[None]:
    """Holds back progress bars, and load reports that alarm for nothing (HF_ColBERT's `linear.weight`)."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
