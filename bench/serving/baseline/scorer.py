"""Scores batches on the device: flash-maxsim's kernels on CUDA, plain PyTorch elsewhere.

All documents of a collection lie in one packed tensor on the device. A batch takes one upload (queries and ordinals,
from pinned memory), its kernels, one top-k for all of its queries, and one download.
"""

import dataclasses
from typing import List, Optional

import numpy as np
import torch

from collection import rotation

try:
    import flash_maxsim
    from flash_maxsim import flash_maxsim_quant
    from flash_maxsim.flash_maxsim_rerank import flash_maxsim_rerank_direct
except ImportError:
    flash_maxsim = None

# If a kernel needs its documents side by side, at most this many bytes of candidates are gathered at a time.
MAX_GATHERED_BYTES = 2 << 30
LOAD_ROWS = 1 << 20


@dataclasses.dataclass
class Work:
    """One request: queries [n, tokens, dim] f32 or f16, which all have the same candidates."""

    queries: np.ndarray
    ordinals: Optional[np.ndarray]  # int64, without repeats; None: the whole collection
    top_k: int

    def num_candidates(self, collection):
        return collection.num_documents if self.ordinals is None else len(self.ordinals)


@dataclasses.dataclass
class Answer:
    scores: np.ndarray  # [n, k], best first
    places: np.ndarray  # [n, k], in the candidates


@dataclasses.dataclass
class Request:
    """A Work on the device. Its tensors are parts of the batch's tensors."""

    queries: torch.Tensor  # [n, tokens, dim] f16, rotated if the collection is
    values: Optional[torch.Tensor]  # on CUDA with i8 storage: the queries in int8, with a scale per token
    scales: Optional[torch.Tensor]
    ordinals: Optional[torch.Tensor] = None  # None: the whole collection
    gathered: Optional[tuple] = None  # documents and scales of the ordinals, if the batch has gathered them


class Scorer:
    """One collection on one device. Used by one thread at a time, on that thread's CUDA stream."""

    def __init__(self, collection, storage, device):
        self.collection = collection
        self.device = torch.device(device)
        self.on_gpu = self.device.type == "cuda"
        if self.on_gpu and flash_maxsim is None:
            raise SystemExit("the baseline on CUDA wants flash-maxsim: pip install flash-maxsim==0.3.0")
        if collection.storage not in ("f16", "i8", "f32"):
            raise SystemExit(f"collection {collection.name} is stored as {collection.storage}; f16, f32 and i8 can be read")
        if storage == "f16" and collection.storage == "i8":
            raise SystemExit(f"collection {collection.name} is stored as i8; --storage f16 wants its source")
        self.storage = storage
        self.matrix = None
        if collection.storage == "i8":
            self.matrix = torch.from_numpy(rotation(collection.rotation_seed, collection.dim)).to(self.device)
        self.lengths = torch.from_numpy(collection.lengths).to(self.device)
        self.offsets = torch.from_numpy(collection.offsets[:-1].copy()).to(self.device)
        self.lengths32, self.offsets32 = self.lengths.int(), self.offsets.int()
        self.max_length = int(collection.lengths.max())
        # If all documents have the same length, they are a [documents, tokens, dim] view, and whole documents are
        # gathered without padding.
        self.same_length = bool((collection.lengths == collection.lengths[0]).all())
        # flash_maxsim_rerank_direct reads documents in place, but indexes their elements with 32 bits.
        self.reads_in_place = collection.num_tokens * collection.dim < 2**31
        self._upload()
        self.ramp = torch.arange(self.max_length, device=self.device)
        self.full_lengths = torch.full((collection.num_documents,), self.max_length, dtype=torch.int32, device=self.device)

    def _upload(self):
        rows, dim = self.collection.num_tokens, self.collection.dim
        is_i8 = self.storage == "i8"
        self.tokens = torch.empty(rows, dim, dtype=torch.int8 if is_i8 else torch.float16, device=self.device)
        self.scales = torch.empty(rows, dtype=torch.float16, device=self.device) if is_i8 else None
        begin = 0
        for shard in self.collection.shards:
            for first in range(0, len(shard), LOAD_ROWS):
                block = torch.from_numpy(np.array(shard[first : first + LOAD_ROWS])).to(self.device)
                part = slice(begin, begin + len(block))
                if is_i8 and self.collection.storage != "i8":
                    # Quantises with one scale per token, because users of flash-maxsim do.
                    values = block.float()
                    largest = values.abs().amax(dim=-1, keepdim=True).clamp_min(1e-8)
                    self.tokens[part] = (values / largest * 127).round().clamp(-127, 127).to(torch.int8)
                    self.scales[part] = (largest / 127).half().squeeze(-1)
                else:
                    self.tokens[part] = block
                begin += len(block)
        if is_i8 and self.collection.storage == "i8":
            scales = torch.from_numpy(self.collection.scales.copy()).to(self.device)
            self.scales = torch.repeat_interleave(scales, self.lengths).half()

    def warm_up(self, query_tokens, candidates):
        """Compiles and tunes every kernel that these shapes need, so that no request has to wait for it."""
        count = self.collection.num_documents
        random = np.random.default_rng(0)
        for tokens in query_tokens:
            for number in (1, 8, 32):
                queries = random.standard_normal((number, tokens, self.collection.dim)).astype(np.float16)
                lists = [np.sort(random.permutation(count)[: min(n, count)]) for n in candidates]
                for ordinals in [*lists, None]:
                    self.score([Work(queries, ordinals, 10)] * (4 if number == 1 else 1))

    def score(self, batch: List[Work]) -> List[Answer]:
        """Returns the answers in order. Each query of a batch has its own best k, but one call of topk selects for
        all queries."""
        with torch.inference_mode():
            rows = []
            for request in self._to_device(batch):
                rows += list(self._scores(request).unbind(0))
            widest = max(len(row) for row in rows)
            if all(len(row) == widest for row in rows):
                table = torch.stack(rows)
            else:
                table = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float("-inf"))
            most = min(max(work.top_k for work in batch), widest)
            best = torch.topk(table, most, dim=1)
            scores, places = self._to_host(best.values), self._to_host(best.indices)
            if self.on_gpu:
                done = torch.cuda.Event()
                done.record()
                done.synchronize()
        answers, row = [], 0
        for work in batch:
            k = min(work.top_k, work.num_candidates(self.collection))
            part = slice(row, row + len(work.queries))
            answers.append(Answer(scores[part, :k].numpy(), places[part, :k].numpy()))
            row += len(work.queries)
        return answers

    def _to_host(self, tensor):
        if not self.on_gpu:
            return tensor
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host.copy_(tensor, non_blocking=True)

    def _to_device(self, batch):
        """Returns a Request for each Work. The whole batch takes two uploads and one call for rotation and
        quantisation. If all documents have the same length and must be gathered anyway, one more call gathers those
        of the whole batch."""
        flat = np.concatenate([work.queries.reshape(-1, self.collection.dim) for work in batch])
        flat = torch.from_numpy(flat.astype(np.float16, copy=False))
        lists = [work.ordinals for work in batch if work.ordinals is not None]
        ids = torch.from_numpy(np.concatenate(lists)) if lists else torch.empty(0, dtype=torch.int64)
        if self.on_gpu:
            flat, ids = flat.pin_memory(), ids.pin_memory()
        flat, ids = flat.to(self.device, non_blocking=True), ids.to(self.device, non_blocking=True)
        if self.matrix is not None:
            flat = (flat.float() @ self.matrix).half()
        values = scales = documents = document_scales = None
        if self.storage == "i8" and self.on_gpu:
            values, scales = flash_maxsim_quant.quantize_query_int8(flat)
        bytes_each = self.max_length * self.collection.dim * self.tokens.element_size()
        gathers = self.storage == "i8" or not self.reads_in_place or any(len(work.queries) > 1 for work in batch)
        if self.same_length and gathers and lists and len(ids) * bytes_each <= MAX_GATHERED_BYTES:
            documents = self.tokens.view(-1, self.max_length, self.collection.dim)[ids]
            if self.scales is not None:
                document_scales = self.scales.view(-1, self.max_length)[ids]
        requests, row, first = [], 0, 0
        for work in batch:
            number, tokens, _ = work.queries.shape
            part = slice(row, row + number * tokens)
            row += number * tokens
            request = Request(
                queries=flat[part].view(number, tokens, -1),
                values=None if values is None else values[part].view(number, tokens, -1),
                scales=None if scales is None else scales[part].view(number, tokens),
            )
            if work.ordinals is not None:
                mine = slice(first, first + len(work.ordinals))
                first += len(work.ordinals)
                request.ordinals = ids[mine]
                if documents is not None:
                    request.gathered = documents[mine], None if document_scales is None else document_scales[mine]
            requests.append(request)
        return requests

    def _scores(self, request):
        """Returns the scores of one request, [queries, candidates]."""
        queries, ordinals = request.queries, request.ordinals
        if not self.on_gpu:
            return self._plain(request)
        if self.storage == "i8":
            return self._int8(request)
        if self.reads_in_place and request.gathered is None and (len(queries) == 1 or ordinals is None):
            if ordinals is not None or not self.same_length:
                part = slice(None) if ordinals is None else ordinals
                offsets, lengths = self.offsets32[part], self.lengths32[part]
                return torch.stack(
                    [
                        flash_maxsim_rerank_direct(query, self.tokens, offsets, lengths, self.max_length)
                        for query in queries
                    ]
                )
        parts = []
        for documents, lengths, _ in self._gathered(request):
            # Queries are not padded to 128 tokens: that would only save tuning, which warm_up has already done.
            parts.append(
                flash_maxsim.flash_maxsim_batched(queries, documents, doc_lengths=lengths, shared_docs=True, pad_lq=False)
            )
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]

    def _int8(self, request):
        columns = []
        for documents, lengths, scales in self._gathered(request):
            if lengths is None:
                lengths = self.full_lengths[: len(documents)]
            columns.append(
                torch.stack(
                    [
                        flash_maxsim_quant.flash_maxsim_int8x8(
                            query, documents, scales, Q_int8=values, q_scales=scale, doc_lengths=lengths
                        )
                        for query, values, scale in zip(request.queries, request.values, request.scales)
                    ]
                )
            )
        return torch.cat(columns, dim=1) if len(columns) > 1 else columns[0]

    def _gathered(self, request):
        """Yields parts of the candidates side by side: documents [documents, tokens, dim], lengths (None: all equal)
        and the scales of int8."""
        dim, longest, ordinals = self.collection.dim, self.max_length, request.ordinals
        if request.gathered is not None:
            yield request.gathered[0], None, request.gathered[1]
            return
        if self.same_length:
            documents = self.tokens.view(-1, longest, dim)
            scales = None if self.scales is None else self.scales.view(-1, longest)
            if ordinals is None:
                yield documents, None, scales
                return
        if ordinals is None:
            ordinals = torch.arange(self.collection.num_documents, device=self.device)
        most = max(1, MAX_GATHERED_BYTES // (longest * dim * self.tokens.element_size()))
        for part in ordinals.split(most):
            if self.same_length:
                yield documents[part], None, None if scales is None else scales[part]
                continue
            lengths = self.lengths[part]
            # Rows are padded to the length of the collection's longest document. To find the longest document of this
            # part, the host would have to wait for the device.
            rows = self.offsets[part, None] + torch.minimum(self.ramp[None, :], lengths[:, None] - 1)
            yield self.tokens[rows], lengths.int(), None if self.scales is None else self.scales[rows]

    def _plain(self, request):
        """Scores without flash-maxsim: gathers, multiplies, masks and reduces."""
        queries, parts = request.queries, []
        for documents, lengths, scales in self._gathered(request):
            values = documents.float()
            if scales is not None:
                values = values * scales.float()[..., None]
            similarities = torch.einsum("qid,cjd->qcij", queries.float(), values)
            if lengths is not None:
                beyond = self.ramp[None, :] >= lengths[:, None]
                similarities = similarities.masked_fill(beyond[None, :, None, :], float("-inf"))
            parts.append(similarities.amax(dim=-1).sum(dim=-1))
        return torch.cat(parts, dim=1)
