"""What an index will hold and weigh, and the work it takes: arithmetic alone, nothing is read or run.

Sizes follow the files that pipeline/plaid/shard.py, passages.py and pipeline/lexical write. What can only be measured
once an index is there is a constant here, with its source. GB are 1e9 bytes, GiB 2^30.
"""

import math
from dataclasses import dataclass

from pipeline.plaid.config import EstimateConfig, IndexConfig, SplitConfig
from pipeline.plaid.passages import BATCH
from pipeline.plaid.settings import SearchSettings
from pipeline.plaid.train_codec import num_partitions

MARKERS = 3  # vectors of [CLS], the document marker and [SEP], on top of a passage's tokens
# (centroid, passage) pairs of the inverted file for each vector, 4 bytes each: PLAID's indexes (arXiv 2205.09707, table
# 1) take 2.0 (Wikipedia) to 3.1 (MS MARCO v2) bytes a token beyond codes and residuals, 2.7 in the mean.
IVF_PAIRS, IVF_PAIRS_RANGE = 0.675, (0.5, 0.775)
TERM_PAIRS = 0.43  # (term, passage) pairs for each token: 253 passages of 450 tokens of FineWeb [measured]
# Of a passage in its store: id 47 (FineWeb's), url 80, start and chunk 12, string offsets 12.
PASSAGE_FIELDS = 151
QUERY_TOKENS = 32  # ColBERT's query_maxlen


@dataclass(frozen=True)
class EncoderShape:
    """What an encoder's arithmetic depends on; names as in a transformer's config.json."""

    dim: int
    layers: int
    hidden_size: int
    intermediate_size: int

    @property
    def parameters(self) -> int:
        """Weights of the layers; embeddings, biases and norms not counted."""
        return self.layers * (4 * self.hidden_size**2 + 2 * self.hidden_size * self.intermediate_size)

    def flop(self, length: float) -> float:
        """Of a forward pass, for one token of a passage of `length`: 2 for each weight and for each element of the
        projection, and 4 n h a layer for the two products of attention (Kaplan et al. 2020, table 1; not causal)."""
        attention = 4 * self.layers * length * self.hidden_size
        return 2 * self.parameters + 2 * self.hidden_size * self.dim + attention


@dataclass(frozen=True)
class Contents:
    """A collection cut into passages. `vectors`: tokens that keep a vector, markers included; `read`: tokens the
    encoder reads, masked ones too; `store_bytes`: the passage store; `term_pairs`: distinct terms, summed over
    passages."""

    documents: int
    passages: float
    vectors: float
    read: float
    store_bytes: float
    term_pairs: float

    def scaled(self, documents: int) -> "Contents":
        """As many documents of the same kind."""
        by = documents / self.documents
        numbers = (self.passages, self.vectors, self.read, self.store_bytes, self.term_pairs)
        return Contents(documents, *(by * number for number in numbers))


def passages_per_document(tokens: float, size: float, overlap: float) -> float:
    """Mean number of windows, for documents whose lengths are exponential with mean `tokens`.

    One window, and where the document is longer than it (e^(-size/tokens)) as many steps as the rest takes; the rest is
    exponential again, so that they are 1 / (1 - e^(-step/tokens)) in the mean.
    """
    step = size - overlap
    return 1 + math.exp(-size / tokens) / -math.expm1(-step / tokens)


def stated_contents(stated: EstimateConfig, split: SplitConfig) -> Contents:
    """Contents of a corpus that is known by its totals only: every token has a vector."""
    if stated.documents is None or stated.tokens_per_document is None or stated.bytes_per_document is None:
        raise ValueError("documents, tokens_per_document and bytes_per_document are not all stated")
    token_bytes = stated.bytes_per_document / stated.tokens_per_document
    unit = token_bytes if split.unit == "characters" else 1.0
    size, overlap = split.size / unit, split.overlap / unit
    passages = stated.documents * passages_per_document(stated.tokens_per_document, size, overlap)
    tokens = stated.documents * stated.tokens_per_document + overlap * (passages - stated.documents)
    vectors = tokens + MARKERS * passages
    store = tokens * token_bytes + PASSAGE_FIELDS * passages
    return Contents(stated.documents, passages, vectors, vectors, store, TERM_PAIRS * tokens)


@dataclass(frozen=True)
class KMeans:
    """The codec's training. `rule_*`: what colbert-ai's sample would be; `sample_*`: within codec.sample_memory_gib."""

    centroids: int
    rule_passages: float
    rule_vectors: float
    rule_bytes_fp16: float
    sample_vectors: float
    sample_bytes: float
    flop: float

    @property
    def vectors_per_centroid(self) -> float:
        return self.sample_vectors / self.centroids


def kmeans(contents: Contents, config: IndexConfig, dim: int) -> KMeans:
    """As build.codec_step does it: 1 + 16 sqrt(120 N) of N passages (colbert-ai 0.2.22), in whole pieces, cut where
    their float32 vectors fill the memory given; 2^floor(log2(16 sqrt(vectors))) centroids, less where the sample is
    small (train_codec.num_partitions)."""
    mean = contents.vectors / contents.passages
    wanted = min(contents.passages, 1 + math.floor(16 * math.sqrt(120 * contents.passages)))
    pieces = min(contents.passages, BATCH * math.ceil(wanted / BATCH))
    room = config.codec.sample_memory_gib * 2**30 // (4 * dim)
    sample = max(1.0, min(room, contents.vectors * (pieces / contents.passages)))
    centroids = num_partitions(round(contents.vectors), int(sample))
    flop = 2 * sample * centroids * dim * config.codec.kmeans_iterations
    return KMeans(centroids, wanted, wanted * mean, 2 * dim * wanted * mean, sample, 4 * dim * sample, flop)


@dataclass(frozen=True)
class Bytes:
    """Of a finished index, by part. Shards link to one codec, so it counts once."""

    codes_and_residuals: float
    inverted_lists: float
    passages: float
    bm25: float
    codec: float
    shards: int

    @property
    def total(self) -> float:
        return self.codes_and_residuals + self.inverted_lists + self.passages + self.bm25 + self.codec

    @property
    def of_a_shard(self) -> float:
        """The mean; the codec apart."""
        return (self.total - self.codec) / self.shards

    @property
    def plaid(self) -> float:
        """Codes, residuals and inverted lists: what is called the size of a PLAID index."""
        return self.codes_and_residuals + self.inverted_lists


def vector_bytes(dim: int, nbits: int) -> float:
    """Of one vector: int32 centroid and nbits a dimension (PLAID, section 3)."""
    return 4 + dim * nbits / 8


def index_bytes(
    contents: Contents, config: IndexConfig, dim: int, centroids: int, ivf_pairs: float = IVF_PAIRS
) -> Bytes:
    """Sizes of the parts. Inverted lists: int32 for each pair and int64 for each centroid, in every shard; BM25: per
    pair an int32 passage, a float32 weight and a byte of count, int32 for each passage. Doclens are JSON: 5 bytes. The
    terms themselves (24 bytes each) are left out: they weigh in small collections only."""
    shards = math.ceil(contents.documents / config.shards.documents)
    return Bytes(
        codes_and_residuals=vector_bytes(dim, config.codec.nbits) * contents.vectors + 5 * contents.passages,
        inverted_lists=4 * ivf_pairs * contents.vectors + 8 * centroids * shards,
        passages=contents.store_bytes,
        bm25=9 * contents.term_pairs + 4 * contents.passages if config.lexical.bm25 else 0,
        codec=2 * dim * centroids,
        shards=shards,
    )


@dataclass(frozen=True)
class Searcher:
    """Memory of one of the searchers an index is spread over: held always; mapped, the more of it in RAM the faster."""

    held_bytes: float
    mapped_bytes: float


def searcher(contents: Contents, size: Bytes, dim: int, centroids: int, searchers: int) -> Searcher:
    """Held: float32 centroids, int64 for each passage and, in each of its shards, for each centroid, and 2^28 bytes of
    centroid scores (probe.batches)."""
    lists = 8 * (centroids + 1) * math.ceil(size.shards / searchers)
    held = 4 * dim * centroids + lists + 8 * contents.passages / searchers + 2**28
    return Searcher(held, (size.total - size.codec) / searchers)


def probe_flop(dim: int, centroids: int, query_tokens: int = QUERY_TOKENS) -> float:
    """Of a query's scores against all centroids."""
    return 2.0 * query_tokens * centroids * dim


def query_bytes(vectors: float, dim: int, nbits: int, k: int = 10) -> float:
    """That a query for the best k has to read at least: the ndocs / 4 passages scored exactly, of `vectors` each."""
    return SearchSettings.default(k).ndocs // 4 * vectors * vector_bytes(dim, nbits)


@dataclass(frozen=True)
class Work:
    """Hours of one encoder (a GPU, or a machine without); None where the encoder's arithmetic is not known."""

    encode: float
    sample: float
    assign: float | None
    kmeans: float | None
    encoders: int

    @property
    def total(self) -> float:
        return self.encode + self.sample + (self.assign or 0) + (self.kmeans or 0)

    @property
    def wall(self) -> float:
        """The encoders share all but k-means, perfectly."""
        alone = self.kmeans or 0
        return (self.total - alone) / self.encoders + alone


def work(
    contents: Contents, trained: KMeans, dim: int, encoders: int, tokens_per_second: float, flops: float | None
) -> Work:
    """Time of an encoder that reads `tokens_per_second` and, in FLOP/s, computes `flops`. The sample is encoded again
    by the encode step unless it is half of the collection (build.codec_step). Nearest centroids and k-means are counted
    as exact search at the same FLOP/s: 2 K dim for each vector and iteration."""
    sampled = trained.sample_vectors / contents.vectors
    kept = 2 * trained.rule_passages >= contents.passages
    rest = (1 - sampled if kept else 1.0) * contents.read
    hour = 3600.0
    return Work(
        encode=rest / tokens_per_second / hour,
        sample=sampled * contents.read / tokens_per_second / hour,
        assign=None if flops is None else 2 * trained.centroids * dim * contents.vectors / flops / hour,
        kmeans=None if flops is None else trained.flop / flops / hour,
        encoders=encoders,
    )
