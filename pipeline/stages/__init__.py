"""The stages by the name a system file calls them. Adding one: write its file, add its class here, test it."""

from pipeline.stage import Stage
from pipeline.stages.answer import Answer
from pipeline.stages.answer_fid import AnswerFid
from pipeline.stages.count_mentions import CountMentions
from pipeline.stages.cut import Cut
from pipeline.stages.draft_passages import DraftPassages
from pipeline.stages.explore import Explore
from pipeline.stages.filter_snippets import FilterSnippets
from pipeline.stages.fuse import Fuse
from pipeline.stages.guardrail import Guardrail
from pipeline.stages.merge_passages import MergePassages
from pipeline.stages.pair import Pair
from pipeline.stages.rerank import Rerank
from pipeline.stages.score_passages import ScorePassages
from pipeline.stages.search import Search
from pipeline.stages.vote import Vote
from pipeline.stages.write_hypothetical import WriteHypothetical
from pipeline.stages.write_queries import WriteQueries

STAGES: dict[str, type[Stage]] = {
    "answer": Answer,
    "answer_fid": AnswerFid,
    "count_mentions": CountMentions,
    "cut": Cut,
    "draft_passages": DraftPassages,
    "explore": Explore,
    "filter_snippets": FilterSnippets,
    "fuse": Fuse,
    "guardrail": Guardrail,
    "merge_passages": MergePassages,
    "pair": Pair,
    "rerank": Rerank,
    "score_passages": ScorePassages,
    "search": Search,
    "vote": Vote,
    "write_hypothetical": WriteHypothetical,
    "write_queries": WriteQueries,
}
