r"""How often a word is in a text, in any of its surface forms: `\b(?:...)\b`, letter case aside (ELITE's counting)."""

import re
from collections.abc import Iterable, Sequence


def forms_pattern(forms: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds every form as a whole word; of forms that begin alike the longest counts, once.

    White space in a form stands for any in the text. Where a form begins or ends with a sign, which has no word
    boundary, it only must not go on as a word. Raises ValueError where no form is given.
    """
    unique = {" ".join(form.split()).casefold(): " ".join(form.split()) for form in forms if form.strip()}
    if not unique:
        raise ValueError("no form to count")
    longest = sorted(unique.values(), key=lambda form: (-len(form), form))
    written = "|".join(r"\s+".join(map(re.escape, form.split())) for form in longest)
    return re.compile(rf"(?<!\w)(?:{written})(?!\w)", re.IGNORECASE)


def count_forms(texts: Sequence[str], forms: Iterable[str]) -> int:
    """Occurrences of any form in the texts together; none of them overlap."""
    pattern = forms_pattern(forms)
    return sum(1 for text in texts for _ in pattern.finditer(text))
