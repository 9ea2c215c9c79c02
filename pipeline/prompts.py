"""Prompts: Jinja templates in files, whose slots a stage fills. The text travels inside the stage, to any machine."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, meta
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BeforeValidator, PlainSerializer, ValidationInfo

from pipeline.errors import InputError

SHIPPED = Path(__file__).resolve().parent.parent / "configs" / "prompts"

# Plain text: nothing is escaped. Sandboxed: a prompt is a file of the user's, not a program.
_JINJA = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)


@dataclass(frozen=True)
class Prompt:
    """A template's text with the slots it uses; `sha256` is of the text, for the manifest."""

    name: str
    text: str
    slots: frozenset[str]
    sha256: str

    def render(self, **slots: Any) -> str:
        """The prompt with its slots filled. What the question or a passage says is never read as a template."""
        return _compiled(self.text).render(slots).strip()


class PromptUse(NamedTuple):
    """How a stage uses a prompt: the slots it fills, and those without which the prompt would ignore a setting."""

    prompt: Prompt
    fills: set[str]
    requires: set[str]


@lru_cache(maxsize=64)
def _compiled(text: str) -> Template:
    return _JINJA.from_string(text)


def load_prompt(name: str, near: Path | None = None) -> Prompt:
    """`NAME.j2` from the folder `near`, else from configs/prompts. InputError where missing or not a template."""
    folders = [folder for folder in (near, SHIPPED) if folder is not None]
    file = next((folder / f"{name}.j2" for folder in folders if (folder / f"{name}.j2").is_file()), None)
    if file is None:
        there = sorted({found.stem for folder in folders for found in folder.glob("*.j2")})
        looked = " or ".join(str(folder) for folder in folders)
        raise InputError(f"no prompt '{name}' ({name}.j2 in {looked}). Prompts there: {', '.join(there) or 'none'}.")
    try:
        text = file.read_text(encoding="utf-8")
        tree = _JINJA.parse(text)
        _compiled(text)
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"prompt {file} cannot be read: {problem}.") from problem
    except TemplateSyntaxError as problem:
        raise InputError(
            f"prompt {file}, line {problem.lineno}: not a Jinja template: {str(problem.message).rstrip('.')}."
        ) from problem
    if other := next(meta.find_referenced_templates(tree), None):
        raise InputError(f"prompt {file} includes '{other}'; a prompt stands alone: copy the text in.")
    slots = frozenset(meta.find_undeclared_variables(tree))
    return Prompt(name, text, slots, hashlib.sha256(text.encode()).hexdigest())


def check_use(use: PromptUse) -> None:
    """InputError where the prompt and the stage do not match, slot by slot."""
    name, fills = use.prompt.name, ", ".join(sorted(use.fills))
    if lacking := sorted(use.requires - use.prompt.slots):
        raise InputError(f"prompt '{name}' lacks the slot {{{{ {lacking[0]} }}}}. Slots this stage fills: {fills}.")
    if unknown := sorted(use.prompt.slots - use.fills):
        raise InputError(
            f"prompt '{name}' uses the slot {{{{ {unknown[0]} }}}}, which this stage does not fill. It fills: {fills}."
        )


def _resolved(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str | Prompt):
        raise ValueError("wants the name of a prompt")
    return load_prompt(value, (info.context or {}).get("near")) if isinstance(value, str) else value


# A stage's prompt field: a name in YAML; from then on the text itself.
PromptField = Annotated[
    Prompt, BeforeValidator(_resolved), PlainSerializer(lambda prompt: prompt.name, return_type=str)
]
