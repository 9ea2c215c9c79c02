"""The stages by the name a system file calls them. Adding one: write its file, add its class here, test it."""

from pipeline.stage import Stage
from pipeline.stages.answer import Answer
from pipeline.stages.cut import Cut
from pipeline.stages.filter_snippets import FilterSnippets
from pipeline.stages.fuse import Fuse
from pipeline.stages.guardrail import Guardrail
from pipeline.stages.search import Search
from pipeline.stages.write_queries import WriteQueries

STAGES: dict[str, type[Stage]] = {
    "answer": Answer,
    "cut": Cut,
    "filter_snippets": FilterSnippets,
    "fuse": Fuse,
    "guardrail": Guardrail,
    "search": Search,
    "write_queries": WriteQueries,
}
