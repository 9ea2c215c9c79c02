"""Forms of a question set: the same questions as hurried, terse or other people would put them. Ids and gold stay.

`typos` and `keywords` are rules and depend on the question alone; `paraphrased` is a model's work.
"""

import hashlib
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.completions import seed, without_thinking
from pipeline.env import LLM, ChatRequest
from pipeline.prompts import load_prompt
from pipeline.scoring.support import FUNCTION_WORDS
from pipeline.sweep.config import Form

TYPO_EVERY = 12  # characters a typo, at least one a question: about one word in two or three
PROMPT = "paraphrase_question"


def reformed(questions: pa.Table, form: Form, llm: Callable[[], LLM]) -> pa.Table:
    """The question table with its `question` column in that form. `llm` is called for `paraphrased` alone."""
    texts: list[str] = questions["question"].to_pylist()
    if form == "typos":
        texts = [typos(text) for text in texts]
    elif form == "keywords":
        texts = [keywords(text) for text in texts]
    elif form == "paraphrased":
        texts = paraphrased(texts, llm())
    place = questions.column_names.index("question")
    return questions.set_column(
        place, "question", pc.cast(pa.chunked_array([pa.array(texts, pa.string())]), pa.string())
    )


def typos(text: str) -> str:
    """Neighbouring letters swapped, a letter left out or doubled: one for `TYPO_EVERY` characters, inside words."""
    source = random.Random(hashlib.sha256(text.encode()).digest())
    places = [n for n in range(1, len(text) - 1) if text[n - 1 : n + 2].isalpha()]
    chosen = source.sample(places, min(len(places), max(1, len(text) // TYPO_EVERY)))
    for place in sorted(chosen, reverse=True):
        kind = source.choice(("swap", "drop", "double"))
        new = {
            "swap": text[place + 1] + text[place],
            "drop": text[place + 1],
            "double": text[place] * 2 + text[place + 1],
        }
        text = text[:place] + new[kind] + text[place + 2 :]
    return text


def keywords(text: str) -> str:
    """The words that carry content, lower case, as typed into a search box; a text without any stays as it is."""
    words = [word.strip(".,;:!?\"'()").lower() for word in text.split()]
    kept = [word for word in words if word and word not in FUNCTION_WORDS and word not in ("whose", "whom", "please")]
    return " ".join(kept) or text


def paraphrased(texts: list[str], llm: LLM) -> list[str]:
    """Each question said otherwise by a model; one for which it says nothing, or much too much, stays as it is."""
    prompt = load_prompt(PROMPT)
    requests = [
        ChatRequest(_user(prompt.render(question=text)), 96, temperature=0.7, seed=seed(PROMPT, text)) for text in texts
    ]
    replies = llm.chat(requests)
    said = [without_thinking(reply.text).strip().strip('"') if reply.error is None else "" for reply in replies]
    return [
        new if new and "\n" not in new and len(new) <= 3 * len(old) + 40 else old
        for new, old in zip(said, texts, strict=True)
    ]


def _user(text: str) -> tuple[dict[str, Any], ...]:
    return ({"role": "user", "content": text},)
