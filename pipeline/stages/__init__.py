"""The stages by the name a system file calls them. Adding one: write its file, add its class here, test it."""

from pipeline.stage import Stage
from pipeline.stages.answer import Answer
from pipeline.stages.count_mentions import CountMentions
from pipeline.stages.cut import Cut
from pipeline.stages.explore import Explore
from pipeline.stages.filter_snippets import FilterSnippets
from pipeline.stages.search import Search
from pipeline.stages.vote import Vote
from pipeline.stages.write_queries import WriteQueries

STAGES: dict[str, type[Stage]] = {
    "answer": Answer,
    "count_mentions": CountMentions,
    "cut": Cut,
    "explore": Explore,
    "filter_snippets": FilterSnippets,
    "search": Search,
    "vote": Vote,
    "write_queries": WriteQueries,
}
