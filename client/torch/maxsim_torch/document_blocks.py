"""Processes padded documents in blocks, for operators that compute document vectors on the way and never store them
all.

A block is some documents with all of their pairs. The operators of operators.py score and differentiate it. The sums
over blocks are in float32 and in the order of the blocks, so that results have the same bits in every run. Nothing here
waits for a GPU, because every decision depends only on shapes.
"""

from typing import Any, Iterator, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from . import library
from .operators import arguments_of, scores, scores_backward
from .pairing import Pairs
from .tokens import Tokens, plain_tokens

# The number of float32 values in a block's document vectors (64 MiB), unless the caller chooses the number of
# documents. The kernels are as fast with blocks of 16 MiB, and 64 MiB is little compared with what a training step
# holds.
BLOCK_VALUES = 1 << 24


class Block(NamedTuple):
    """Some of the documents, the queries that are scored against them, and the columns of the scores [num_queries,
    list_length]."""

    queries: slice
    documents: slice
    columns: slice

    @property
    def num_documents(self) -> int:
        count: int = self.documents.stop - self.documents.start
        return count


class Winners(NamedTuple):
    """The document tokens of a block that may have a gradient, and the matches as indices into them.

    `picked` [documents, slots] are indices of tokens. They differ within a document, and tokens that matched come
    first. If `picked` is None, slot n is token n. `argmax` [queries, columns, Lq] are slots, or -1 for no match."""

    picked: Optional[Tensor]
    argmax: Tensor


class Problem(NamedTuple):
    """All arguments of torch.ops.maxsim_torch.scores except the rows of the documents.

    Sequences are padded: `queries` are [num_queries, Lq, d], and masks and lengths are None or tensors of the same
    leading dimensions. With pairing LISTS and without `candidates`, the documents of query q begin at q *
    list_length."""

    queries: Tensor
    weights: Optional[Tensor]
    query_mask: Optional[Tensor]
    query_lengths: Optional[Tensor]
    document_mask: Optional[Tensor]
    document_lengths: Optional[Tensor]
    candidates: Optional[Tensor]
    num_documents: int
    max_document_tokens: int
    pairing: int
    list_length: int
    empty_score: float

    @classmethod
    def of(cls, inputs: Any, weights: Optional[Tensor], documents: Tensor) -> "Problem":
        """Makes the Problem for an operator's `inputs` and `documents` [num_documents, Ld, ...]. Uses only the
        documents' shape."""
        return cls(
            inputs.queries,
            weights,
            inputs.query_mask,
            inputs.query_lengths,
            inputs.document_mask,
            inputs.document_lengths,
            inputs.candidates,
            documents.shape[0],
            documents.shape[1],
            inputs.pairing,
            inputs.list_length,
            inputs.empty_score,
        )

    @property
    def num_queries(self) -> int:
        return self.queries.shape[0]

    @property
    def max_query_tokens(self) -> int:
        return self.queries.shape[1]

    def documents_per_block(self, asked: int, values_per_token: int) -> int:
        """Returns the number of documents in a block: `asked` or, if that is 0, as many as BLOCK_VALUES holds, at least
        1."""
        if asked > 0:
            return asked
        return max(1, BLOCK_VALUES // max(1, self.max_document_tokens * values_per_token))

    def blocks(self, documents_per_block: int) -> Iterator[Block]:
        """Divides the documents into blocks, in their order. Without `candidates`, each pair is in one block. With
        `candidates`, all pairs are in every block, and score() and winners() leave out those whose document is in
        another block."""
        every = slice(0, self.num_queries)
        if self.pairing == library.LISTS and self.candidates is None:
            yield from self._blocks_of_lists(documents_per_block)
            return
        for first in range(0, self.num_documents, documents_per_block):
            part = slice(first, min(first + documents_per_block, self.num_documents))
            if self.pairing == library.PAIRS:
                yield Block(part, part, slice(0, 1))
            elif self.pairing == library.ALL:
                yield Block(every, part, part)
            else:
                yield Block(every, part, slice(0, self.list_length))

    def _blocks_of_lists(self, documents_per_block: int) -> Iterator[Block]:
        """Yields blocks of whole lists or, if a block cannot hold one, of parts of one list."""
        width = max(1, min(self.list_length, documents_per_block))
        height = max(1, documents_per_block // max(1, self.list_length))
        for query in range(0, self.num_queries, height):
            queries = slice(query, min(query + height, self.num_queries))
            for column in range(0, self.list_length, width):
                columns = slice(column, min(column + width, self.list_length))
                first = query * self.list_length + column
                count = (queries.stop - queries.start) * (columns.stop - columns.start)
                yield Block(queries, slice(first, first + count), columns)

    def check_candidates(self) -> None:
        """Raises ValueError for a candidate that is no document's index. Checks only candidates in CPU memory."""
        if self.candidates is None or self.candidates.device.type != "cpu" or self.candidates.numel() == 0:
            return
        least, most = int(self.candidates.min()), int(self.candidates.max())
        if least < 0 or most >= self.num_documents:
            wrong = least if least < 0 else most
            raise ValueError(f"a candidate is {wrong}; there are {self.num_documents} documents")

    def _inside(self, block: Block) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """Returns which candidates are in the block, and their indices in it. Other candidates get the number of
        documents in the block as their index."""
        if self.candidates is None:
            return None, None
        inside = (self.candidates >= block.documents.start) & (self.candidates < block.documents.stop)
        return inside, torch.where(inside, self.candidates - block.documents.start, block.num_documents)

    def score(
        self,
        block: Block,
        rows: Tensor,
        with_argmax: bool,
        result: Tensor,
        argmax: Tensor,
        token_scales: Optional[Tensor] = None,
    ) -> None:
        """Scores the block's documents, whose vectors are `rows` [documents, Ld, d], with `token_scales` [documents,
        Ld] if these are given. Writes the block's part of `result` [num_queries, list_length] and, with_argmax, of
        `argmax` [num_queries, list_length, Lq]."""
        inside, named = self._inside(block)
        lengths, mask = part_of(self.document_lengths, block.documents), part_of(self.document_mask, block.documents)
        if inside is not None:
            # Adds a document without tokens. It stands for all documents of other blocks, and costs nothing.
            if lengths is None:
                lengths = torch.full((len(rows),), self.max_document_tokens, dtype=torch.int64, device=rows.device)
            rows, lengths = with_one_more(rows), torch.cat([lengths, lengths.new_zeros(1)])
            mask = None if mask is None else with_one_more(mask)
            token_scales = None if token_scales is None else with_one_more(token_scales)
        documents = plain_tokens(rows, mask, lengths)
        if token_scales is not None:
            documents = documents._replace(scales=token_scales.reshape(-1), scale_of=library.SCALE_PER_TOKEN)
        inputs = arguments_of(*self._of_block(block, documents, named), self.empty_score, with_argmax)
        values, matches = scores(*inputs)
        if inside is None:
            result[block.queries, block.columns] = values
            if with_argmax:
                argmax[block.queries, block.columns] = matches
            return
        result.copy_(torch.where(inside, values, result))
        if with_argmax:
            argmax.copy_(torch.where(inside.unsqueeze(-1), matches, argmax))

    def winners(self, block: Block, argmax: Tensor) -> Winners:
        """Returns the tokens of the block's documents that its matches in `argmax` [num_queries, list_length, Lq] may
        name. A document has as many slots as it can have matches, if the shapes alone show that these are fewer than
        its tokens; otherwise it has one slot per token."""
        matches = argmax[block.queries, block.columns]
        inside, _ = self._inside(block)
        if inside is not None:
            return Winners(None, torch.where(inside.unsqueeze(-1), matches, -1))
        pairs_per_document = self.num_queries if self.pairing == library.ALL else 1
        tokens, slots = self.max_document_tokens, pairs_per_document * self.max_query_tokens
        if slots >= tokens:
            return Winners(None, matches)
        documents = torch.arange(block.num_documents, device=argmax.device)
        if self.pairing == library.ALL:
            documents = documents.reshape(1, -1, 1)
        else:
            documents = documents.reshape(matches.shape[0], matches.shape[1], 1)
        # An additional column collects the query tokens without a match.
        places = documents * (tokens + 1) + torch.where(matches < 0, tokens, matches.to(torch.int64))
        wins = torch.zeros(block.num_documents * (tokens + 1), dtype=torch.uint8, device=argmax.device)
        wins.scatter_(0, places.reshape(-1), 1)
        wins = wins.reshape(block.num_documents, tokens + 1)
        picked = wins[:, :tokens].sort(dim=1, descending=True, stable=True).indices[:, :slots]
        slot = (wins.cumsum(1, dtype=torch.int32) - 1).reshape(-1)[places]
        return Winners(picked, torch.where(matches < 0, -1, slot.to(torch.int32)))

    def gradients(
        self,
        block: Block,
        winners: Winners,
        rows: Tensor,
        score_gradients: Tensor,
        wanted: Tuple[bool, bool, bool],
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Returns the gradients of the block's queries, of `rows` [documents, slots, d] (the vectors of the winners),
        and of the queries' weights. Gradients that are not needed are empty. `score_gradients` are [num_queries,
        list_length]."""
        values = score_gradients[block.queries, block.columns]
        inside, named = self._inside(block)
        if inside is not None and named is not None:
            # Candidates in other blocks must add nothing to this block's gradients. So their gradient becomes 0, and
            # they name any document of this block.
            values, named = torch.where(inside, values, 0), torch.where(inside, named, 0)
        inputs = arguments_of(*self._of_block(block, plain_tokens(rows), named))
        made: Tuple[Tensor, Tensor, Tensor] = scores_backward.differentiate(
            inputs, wanted, values.contiguous(), winners.argmax.contiguous()
        )
        return made

    def _of_block(
        self, block: Block, documents: Tokens, candidates: Optional[Tensor]
    ) -> Tuple[Tokens, Tokens, Optional[Tensor], Pairs]:
        """Queries, documents, weights and pairs of a block."""
        part = block.queries
        queries = plain_tokens(self.queries[part], part_of(self.query_mask, part), part_of(self.query_lengths, part))
        pairs = Pairs(candidates, self.pairing, block.columns.stop - block.columns.start)
        return queries, documents, part_of(self.weights, part), pairs


class QueryGradients:
    """The sums over blocks of the gradients of queries [Nq, Lq, d] and of their weights [Nq, Lq], in float32."""

    def __init__(self, problem: Problem, of_queries: bool, of_weights: bool):
        shape = problem.queries.shape
        self.dtype = problem.queries.dtype
        self.of_queries, self.of_weights = of_queries, of_weights
        self.queries = problem.queries.new_zeros(shape if of_queries else (0,), dtype=torch.float32)
        self.weights = problem.queries.new_zeros(shape[:2] if of_weights else (0,), dtype=torch.float32)

    def add(self, block: Block, queries: Tensor, weights: Tensor) -> None:
        if self.of_queries:
            self.queries[block.queries] += queries
        if self.of_weights:
            self.weights[block.queries] += weights

    def results(self) -> Tuple[Tensor, Tensor]:
        """The gradients, of queries in their type."""
        return self.queries.to(self.dtype), self.weights


def rows_of_winners(rows: Tensor, block: Block, winners: Winners) -> Tensor:
    """Returns the rows [documents, slots, columns] of a block's winners, from `rows` [num_documents, Ld, columns]."""
    part = rows[block.documents]
    if winners.picked is None:
        return part
    return part.gather(1, winners.picked.unsqueeze(-1).expand(-1, -1, rows.shape[2]))


def write_rows(result: Tensor, block: Block, winners: Winners, rows: Tensor) -> None:
    """Writes `rows` [documents, slots, columns] to the places from which rows_of_winners took them. The other rows of
    `result` stay zeros."""
    if winners.picked is None:
        result[block.documents] = rows
    else:
        result[block.documents].scatter_(1, winners.picked.unsqueeze(-1).expand_as(rows), rows)


def part_of(tensor: Optional[Tensor], part: slice) -> Optional[Tensor]:
    """Returns a part of the tensor, or None if there is no tensor."""
    return None if tensor is None else tensor[part]


def with_one_more(rows: Tensor) -> Tensor:
    """Returns the rows and, after them, one more that is never read."""
    more = rows.new_empty((rows.shape[0] + 1, *rows.shape[1:]))
    more[:-1] = rows
    return more
