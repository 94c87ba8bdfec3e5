"""Which pairs of a query and a document may stand in a ranking: all that the error of their cosine cannot rule out.

A score divided by the query's norm is weight * cosine, where a document's weight is the norm of its search vector. A
pair is a candidate where weight * (largest possible cosine) reaches the query's floor, which K documents reach.

Looking at every cosine by itself would cost half as much as computing them. So the largest of each PIECE documents is
found first, and only pieces that reach the floor are looked into. Where many do (at the start of a corpus, or where
everything ties), all are looked at, and the tile's own Kth score raises the floor.

Shapes: G queries of a group, R some of them, T documents of a tile, B pieces, P pairs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.search.cosines import Cosines
from trainers.search_budget import PIECE

_LOOKED_AT = 1 << 19  # cosines at a time: where all are candidates, some 100 bytes each are needed for them
_MANY_PIECES = 4  # above a 1/4 of the pieces, looking at all documents is cheaper
_MANY_PAIRS = 4  # candidates per result above which the floor is raised, then the precision
_EQUAL_NORMS = 1.02
_SLACK = 2.0**-22  # relative, for the rounding of floors to float32
_TINY = 2.0**-120  # absolute, for products that leave the normal range of float32

Pairs = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Tile:
    """What candidates are looked for in: some documents under one similarity.

    Attributes:
        weight_T: the norm of each document's search vector, float32, on the device; 0 for padding.
        num_documents: how many of the T are no padding.
        num_wanted: how many documents of a query must reach its floor.
        precise: cosines of some queries of the group in float32, for what half precision cannot tell apart.
    """

    weight_T: Tensor
    num_documents: int
    num_wanted: int
    precise: Callable[[slice], Cosines]


def by_norm(norm_T: Tensor) -> Tensor | None:
    """An order of a tile's documents, int64 [T], in which those of a piece have nearly equal norms; None if all do.

    A piece is as good as its largest cosine times its largest weight: norms that differ would open it in vain.
    """
    if len(norm_T) % PIECE or float(norm_T.max()) <= _EQUAL_NORMS * float(norm_T.min()):
        return None  # or a tile at the end of a block, which is not worth it
    return norm_T.argsort().view(-1, PIECE).T.reshape(-1)


def floors(score_Q: Tensor, query_norm_Q: Tensor) -> Tensor:
    """The weighted cosine [Q], float32, below which no score rounds to `score_Q`. Both float64; -inf stays -inf."""
    lowest_Q = score_Q - _SLACK * score_Q.abs() - 2.0**-149  # the smallest float32, which a score may have rounded to
    return (lowest_Q / torch.where(query_norm_Q > 0, query_norm_Q, 1.0) - _TINY).float()


def candidates(cosines: Cosines, floor_G: Tensor, tile: Tile) -> Iterator[Pairs]:
    """Every pair that may reach its query's floor, as (rows of the group, documents of the tile), some at a time."""
    piece_R, piece_B = _pieces(cosines, floor_G, tile.weight_T).nonzero(as_tuple=True)
    if len(piece_R) * _MANY_PIECES * PIECE <= cosines.value_GT.numel():
        yield from _in_pieces(cosines, floor_G, tile, piece_R, piece_B)
        return
    step = max(1, _LOOKED_AT // cosines.value_GT.shape[1])
    for start in range(0, len(floor_G), step):
        rows = slice(start, start + step)
        some = Cosines(value_GT=cosines.value_GT[rows], relative=cosines.relative, absolute=cosines.absolute)
        row_P, document_P = _among_all(some, floor_G[rows], tile, rows)
        yield row_P + start, document_P


def _pieces(cosines: Cosines, floor_G: Tensor, weight_T: Tensor) -> Tensor:
    """Whether a document of a piece may reach the floor, bool [G, B]. Document t is in piece t modulo B."""
    # Not t // PIECE: the maximum over neighbours takes twice as long as the one over rows.
    cosine_GB = cosines.upper(cosines.value_GT.view(len(floor_G), PIECE, -1).amax(dim=1))
    weight_PB = weight_T.view(PIECE, -1)
    largest_GB = torch.where(cosine_GB > 0, weight_PB.amax(dim=0), weight_PB.amin(dim=0)).mul_(cosine_GB)
    return largest_GB >= floor_G[:, None]


def _in_pieces(cosines: Cosines, floor_G: Tensor, tile: Tile, row_R: Tensor, piece_R: Tensor) -> Iterator[Pairs]:
    value_GPB = cosines.value_GT.view(len(floor_G), PIECE, -1)
    weight_PB = tile.weight_T.view(PIECE, -1)
    for row_S, piece_S in zip(row_R.split(_LOOKED_AT // PIECE), piece_R.split(_LOOKED_AT // PIECE), strict=True):
        cosine_SP = cosines.upper(value_GPB[row_S, :, piece_S])
        hit_P, place_P = (cosine_SP * weight_PB[:, piece_S].T >= floor_G[row_S, None]).nonzero(as_tuple=True)
        yield _without_padding(row_S[hit_P], place_P * value_GPB.shape[2] + piece_S[hit_P], tile)


def _among_all(cosines: Cosines, floor_R: Tensor, tile: Tile, rows: slice) -> Pairs:
    many = _MANY_PAIRS * tile.num_wanted * len(floor_R)
    found = _reaching(cosines, floor_R, tile)
    if len(found[0]) > many:
        floor_R = torch.maximum(floor_R, _own_floor(cosines, tile))
        found = _reaching(cosines, floor_R, tile)
    if len(found[0]) > many and cosines.value_GT.dtype != torch.float32:
        return _among_all(tile.precise(rows), floor_R, tile, rows)
    return found


def _reaching(cosines: Cosines, floor_R: Tensor, tile: Tile) -> Pairs:
    largest_RT = cosines.upper(cosines.value_GT).mul_(tile.weight_T)
    row_P, document_P = (largest_RT >= floor_R[:, None]).nonzero(as_tuple=True)
    return _without_padding(row_P, document_P, tile)


def _own_floor(cosines: Cosines, tile: Tile) -> Tensor:
    """What `num_wanted` documents of this tile reach for certain, [R]; -inf where it has fewer."""
    if tile.num_documents < tile.num_wanted:
        return cosines.value_GT.new_full((len(cosines.value_GT),), -torch.inf, dtype=torch.float32)
    some = slice(None, tile.num_documents)
    smallest_RT = cosines.lower(cosines.value_GT[:, some]).mul_(tile.weight_T[some])
    last_R = smallest_RT.topk(tile.num_wanted, dim=1, sorted=False).values.amin(dim=1)
    return last_R - _SLACK * last_R.abs() - _TINY


def _without_padding(row_P: Tensor, document_P: Tensor, tile: Tile) -> Pairs:
    if tile.num_documents == len(tile.weight_T):
        return row_P, document_P
    kept_P = document_P < tile.num_documents
    return row_P[kept_P], document_P[kept_P]
