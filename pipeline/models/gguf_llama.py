"""A Llama-architecture GGUF file as an ordinary transformers folder.

Reads the tensors with the `gguf` package: transformers' own GGUF loader also needs `accelerate`, and the quantised
object it returns refuses `save_pretrained`.
"""

from pathlib import Path

import numpy as np

from pipeline.models.loading import quiet


def convert(gguf_file: Path, folder: Path) -> None:
    """Writes `gguf_file` (Llama architecture, GPT-2 style BPE) to `folder`: config, bf16 safetensors, tokenizer.

    Quantised tensors are dequantised to float32 first. Raises KeyError if a tensor of the model is not in the file.
    """
    import torch
    from gguf import MODEL_ARCH, GGUFReader, dequantize, get_tensor_name_map
    from transformers import AutoConfig, LlamaForCausalLM

    config = AutoConfig.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
    model = LlamaForCausalLM(config)
    model.bfloat16()
    tensors = {tensor.name: tensor for tensor in GGUFReader(gguf_file).tensors}
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, config.num_hidden_layers)
    state = {}
    for key in model.state_dict():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        tensor = tensors[names.get_name(key, try_suffixes=(".weight",)) or key]
        value = dequantize(tensor.data, tensor.tensor_type)
        if ".q_proj." in key:
            value = _rotary_halves(value, config.num_attention_heads)
        elif ".k_proj." in key:
            value = _rotary_halves(value, config.num_key_value_heads)
        state[key] = torch.from_numpy(np.array(value))
    absent = model.load_state_dict(state, strict=False).missing_keys
    if absent not in ([], ["lm_head.weight"]):
        raise KeyError(f"{gguf_file}: no tensor for {absent}")
    model.tie_weights()
    with quiet():
        model.save_pretrained(folder)
    _tokenizer(gguf_file, config.max_position_embeddings, folder)


def _rotary_halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undoes llama.cpp's row order of a query or key projection, [heads * head_dim, hidden].

    llama.cpp keeps the two coordinates of one rotation next to each other, transformers keeps them half a head apart.
    """
    rows, hidden = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, hidden).swapaxes(1, 2).reshape(rows, hidden)


def _tokenizer(gguf_file: Path, max_length: int, folder: Path) -> None:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name, model_max_length=max_length)
    # The file names its pre-tokenizer only as `smollm`: single digits first, then GPT-2's byte-level split.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.save_pretrained(folder)
