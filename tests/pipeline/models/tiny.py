"""Random models of a few thousand weights, made from their configs: no hub, no download."""

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, T5Config
from transformers import T5ForConditionalGeneration as T5

WORDS = [
    "a",
    "b",
    "c",
    "who",
    "what",
    "where",
    "river",
    "city",
    "of",
    "the",
    "is",
    "yes",
    "no",
    "passage",
    "question",
    "answer",
    "?",
    ".",
    "one",
    "two",
    "three",
]
SPECIAL = ["<pad>", "</s>", "<unk>", "<s>"]


def tokenizer(folder: Path, limit: int, bos: bool) -> None:
    """A word a token; `<s>` is its BOS where `bos`."""
    vocabulary = {word: n for n, word in enumerate(SPECIAL + WORDS)}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"} | ({"bos_token": "<s>"} if bos else {})
    PreTrainedTokenizerFast(tokenizer_object=plain, model_max_length=limit, **special).save_pretrained(folder)


def causal(folder: Path, limit: int = 32, family: str = "llama") -> Path:
    """A Llama or GPT-2 of 2 layers."""
    import torch

    torch.manual_seed(1)
    size = len(SPECIAL) + len(WORDS)
    if family == "llama":
        config = LlamaConfig(
            vocab_size=size,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=limit,
            initializer_range=0.5,
        )
        LlamaForCausalLM(config).save_pretrained(folder)
    else:
        shape = GPT2Config(vocab_size=size, n_embd=16, n_layer=2, n_head=2, n_positions=limit, initializer_range=0.5)
        GPT2LMHeadModel(shape).save_pretrained(folder)
    tokenizer(folder, 10**9, bos=True)
    return folder


def t5(folder: Path, limit: int = 32) -> Path:
    """A T5 of 2 + 2 layers whose distributions are far from uniform, so that a wrong mask shows."""
    import torch

    torch.manual_seed(2)
    config = T5Config(
        vocab_size=len(SPECIAL) + len(WORDS),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        initializer_factor=3.0,
    )
    T5(config).save_pretrained(folder)
    tokenizer(folder, limit, bos=False)
    return folder
