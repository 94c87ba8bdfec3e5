"""Figures that a right build of a data set gives: how each was made, who says so, and how near another must come."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# Of Lucene's BM25: it rounds a document's length to a byte, which is not made again here. On three real collections
# that alone moves nDCG@10 by up to 0.0019, and equal scores may be ordered otherwise.
BM25_TOLERANCE = 0.004


class Bm25(BaseModel):
    """A ranking by BM25 over title and text as one field.

    `analysis`: 'lucene' is Anserini's of English (Porter's stems, Lucene's stop words); 'words' are lower-cased words
    of letters, digits and underscores without scikit-learn's stop words, not stemmed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["bm25"]
    analysis: Literal["lucene", "words"]
    k1: float = Field(gt=0)
    b: float = Field(ge=0, le=1)

    def __str__(self) -> str:
        analysis = {"lucene": "Lucene", "words": "words, no stemming"}[self.analysis]
        return f"BM25 ({analysis}, k1 {self.k1:g}, b {self.b:g})"


class Encoder(BaseModel):
    """An encoder as its authors published it, not trained further, with texts cut to `max_tokens`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["encoder"]
    model: str
    similarity: str
    max_tokens: int = Field(gt=0)

    def __str__(self) -> str:
        return f"{self.model}, untrained, {self.similarity}, {self.max_tokens} tokens"


Method = Annotated[Bm25 | Encoder, Field(discriminator="kind")]
LUCENE = Bm25(kind="bm25", analysis="lucene", k1=0.9, b=0.4)


class ReferenceFigure(BaseModel):
    """A published or measured figure that says whether a build of this data set is right. Measures are 0 to 1.

    `source`: who published it, or on what it was measured.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Method
    measure: str
    split: str
    value: float
    tolerance: float = Field(gt=0)
    origin: Literal["published", "measured"]
    source: str


def lucene_figure(measure: str, split: str, value: float, *, source: str) -> ReferenceFigure:
    """A published figure of Lucene's BM25 as Anserini sets it."""
    return ReferenceFigure(
        method=LUCENE,
        measure=measure,
        split=split,
        value=value,
        tolerance=BM25_TOLERANCE,
        origin="published",
        source=source,
    )
