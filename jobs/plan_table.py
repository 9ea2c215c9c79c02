"""How `tartan plan` looks on a terminal."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

Row = tuple[str, str, str]  # what, how much, remark


def show(values: dict[str, Any], console: Console) -> None:
    """A table of `figures`, and the list of what was assumed."""
    table = Table(title=f"Plan of index {values['index']}")
    table.add_column("")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for rows in (_contents(values), _codec(values), _bytes(values), _memory(values), _time(values)):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    console.print(table)
    console.print("Assumed:", highlight=False)
    for note in values["assumptions"]:
        console.print(f"- {note}", markup=False, highlight=False, soft_wrap=True)


def size_of(number: float) -> str:
    """Bytes as a person reads them, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def duration(hours: float) -> str:
    """Hours in the unit a person would say them in."""
    for unit, hours_each in (("years", 8766), ("days", 48), ("h", 1)):
        if hours >= hours_each:
            return f"{hours / (24 if unit == 'days' else hours_each):,.1f} {unit}"
    return f"{hours * 60:.1f} min" if hours >= 1 / 60 else f"{hours * 3600:.0f} s"


def _contents(values: dict[str, Any]) -> Iterator[Row]:
    def within(name: str) -> str:
        low, high = values["intervals"].get(name, (0, 0))
        return f"{low:,.0f} to {high:,.0f}" if high > low else ""

    yield "documents", f"{values['documents']:,}", ""
    yield "passages", f"{values['passages']:,}", within("passages")
    mean = f"{values['token_vectors'] / values['passages']:.0f} a passage"
    spread = within("vectors")
    yield "token vectors", f"{values['token_vectors']:,}", f"{spread}; {mean}" if spread else mean


def _codec(values: dict[str, Any]) -> Iterator[Row]:
    k = values["kmeans"]
    yield "centroids", f"{k['centroids']:,}", f"{size_of(values['bytes']['codec'])} in float16"
    rule = f"by colbert-ai's rule {k['rule_vectors']:,.0f} vectors of {k['rule_passages']:,.0f} passages"
    yield (
        "k-means sample",
        f"{k['sample_vectors']:,.0f}",
        f"vectors, {k['vectors_per_centroid']:.0f} a centroid; {rule}",
    )
    yield (
        "memory of it",
        size_of(k["sample_bytes"]),
        f"in float32; by the rule {size_of(k['rule_bytes_fp16'])} in float16",
    )


def _bytes(values: dict[str, Any]) -> Iterator[Row]:
    b = values["bytes"]
    each = f"{b['plaid'] / values['token_vectors']:.1f} bytes a vector, with their lists"
    yield (
        "codes and residuals",
        size_of(b["codes_and_residuals"]),
        f"{values['nbits']} bits, {values['dim']} dimensions",
    )
    yield "inverted lists", size_of(b["inverted_lists"]), each
    yield "passages", size_of(b["passages"]), ""
    yield "BM25", size_of(b["bm25"]), ""
    yield "in all", size_of(b["total"]), f"shards: {values['shards']:,}, each {size_of(b['of_a_shard'])}"


def _memory(values: dict[str, Any]) -> Iterator[Row]:
    s, q = values["searchers"], values["query"]
    mapped = f"each of {s['number']} searchers, beside {size_of(s['mapped_bytes'])} mapped from disk"
    yield "memory held", size_of(s["held_bytes"]), mapped
    yield (
        "a query",
        f"{q['centroid_flop'] / 1e9:.3g} GFLOP",
        f"centroid scores; reads {size_of(q['bytes_read_at_least'])}",
    )


def _time(values: dict[str, Any]) -> Iterator[Row]:
    if values["encoder_flop"]:
        yield "encoder", f"{values['encoder_flop']:.2g} FLOP", ""
    hours = values["hours"]
    if not hours:
        return
    names = (
        ("encode", "encode"),
        ("sample", "encode the sample"),
        ("assign", "nearest centroids"),
        ("kmeans", "k-means"),
    )
    for key, name in names:
        if hours[key] is not None:
            yield name, duration(hours[key]), "of one encoder"
    name = "GPU-hours" if values["gpus"] else "hours"
    yield name, f"{hours['total']:,.2f}", f"{duration(hours['wall'])} by the clock, encoders: {hours['encoders']}"
    if values["dollars"]:
        yield "dollars", f"{values['dollars']:,.2f}", ""
    yield "to disk", f"{size_of(values['write_bytes_per_second'])}/s", "codes and residuals while encoding"
