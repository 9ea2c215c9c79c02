"""How hard a PLAID search looks: light to import, so that configs can hold it."""

from pydantic import BaseModel, ConfigDict, Field


class SearchSettings(BaseModel):
    """PLAID's three pruning settings (Santhanam et al. 2022, section 4), given with each search and never remembered.

    A search returns at most `ndocs // 4` passages, unless it is exhaustive or asks for the whole shard.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ncells: int = Field(ge=1, description="centroids probed for each query token; more than there are means all")
    centroid_score_threshold: float = Field(description="centroids below it for every query token are pruned at first")
    ndocs: int = Field(ge=4, description="passages kept by the pruned centroid scores; a quarter is scored exactly")
    exhaustive: bool = Field(default=False, description="no pruning: every passage is scored exactly")

    @classmethod
    def default(cls, k: int) -> "SearchSettings":
        """colbert-ai 0.2.22's presets for the best `k` passages."""
        if k <= 10:
            return cls(ncells=1, centroid_score_threshold=0.5, ndocs=256)
        if k <= 100:
            return cls(ncells=2, centroid_score_threshold=0.45, ndocs=1024)
        return cls(ncells=4, centroid_score_threshold=0.4, ndocs=max(4 * k, 4096))
