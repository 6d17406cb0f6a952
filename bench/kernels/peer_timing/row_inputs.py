"""A row's queries and documents on the device."""

import os

from peer_timing.report_rows import parse_shape

DOCUMENT_SEED, QUERY_SEED = 11, 1000
FILL_CHUNK = 1 << 25


class Inputs:
    """A row's queries and documents on the device, with the values of maxsim_bench_gpu. Without `fill`, tensors have
    the right shapes but undefined values."""

    def __init__(self, torch, row, folder, fill):
        self.torch, self.fill = torch, fill
        self.shape = parse_shape(row["shape"])
        self.storage = row["storage"]
        self.dtype = torch.bfloat16 if self.storage == "bf16" else torch.float16
        self.kind = self.shape["kind"]
        if self.kind == "topk":
            self.scores = self.values(3, self.shape["scores"], 20.0, torch.float32)
            return
        shape, dim = self.shape, row["d"]
        scale = (torch.tensor(1.7) / torch.sqrt(torch.tensor(float(dim)))).item()
        self.num_queries, self.query_tokens, self.dim = shape["queries"], shape["query_tokens"], dim
        path = os.path.join(folder, row["shape"].replace(":", "_"))
        if shape["ragged"]:
            self.offsets = self.file(path + ".offsets", "int64")
        else:
            self.offsets = torch.arange(shape["documents"] + 1) * shape["max_tokens"]
        self.lists = None
        if self.kind == "lists":
            self.lists = self.file(path + ".lists", "uint32").reshape(self.num_queries, -1)
        self.max_tokens = int((self.offsets[1:] - self.offsets[:-1]).max())
        per_query = self.query_tokens * dim
        self.queries = torch.stack(
            [self.values(QUERY_SEED + n, per_query, scale, self.dtype) for n in range(self.num_queries)]
        ).reshape(self.num_queries, self.query_tokens, dim)
        self.rows = self.values(DOCUMENT_SEED, int(self.offsets[-1]) * dim, scale, self.dtype).reshape(-1, dim)

    def file(self, path, dtype):
        import numpy

        return self.torch.from_numpy(numpy.fromfile(path, dtype=dtype).astype(numpy.int64))

    def values(self, seed, count, scale, dtype):
        """Does what FillRandom of kernels/cuda/testing/random_fill.cu does."""
        torch = self.torch
        values = torch.empty(count, dtype=dtype, device="cuda")
        for begin in range(0, count if self.fill else 0, FILL_CHUNK):
            index = torch.arange(begin, min(begin + FILL_CHUNK, count), device="cuda")
            bits = mix(seed ^ mix(index)) >> 40 & 0xFFFFFF
            values[begin : begin + FILL_CHUNK] = (bits.float() * 2.0**-23 - 1.0) * scale
        return values

    @property
    def documents(self):
        """Returns the documents as [documents, tokens, columns]. All documents must have the same length."""
        return self.rows.reshape(self.shape["documents"], self.max_tokens, self.dim)

    def candidates(self, query):
        return self.lists[query] if self.lists is not None else range(self.shape["documents"])

    def largest_error(self, scores):
        """Returns the largest error of a few scores, relative to their magnitude. `scores` is what a method returns."""
        torch = self.torch
        if self.kind == "topk":
            return 0.0
        if isinstance(scores, (list, tuple)):
            scores = torch.stack(list(scores))
        scores = scores.float().reshape(self.num_queries, -1).double()
        largest = 0.0
        for n in {0, self.num_queries - 1}:
            candidates = self.candidates(n)
            for position in {0, len(candidates) // 2, len(candidates) - 1}:
                document = int(candidates[position])
                rows = self.rows[int(self.offsets[document]) : int(self.offsets[document + 1])].double()
                query = self.queries[n].double()
                expected = (query @ rows.T).max(1).values.sum()
                magnitude = (query.abs() @ rows.abs().T).max(1).values.sum()
                error = ((scores[n, position] - expected).abs() / magnitude).item()
                largest = error if error != error else max(largest, error)
        return largest


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def mix(x):
    """Applies SplitMix64's finaliser to a tensor of int64, whose shifts are arithmetic."""
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * signed(0x94D049BB133111EB)
    return x ^ (x >> 31 & (1 << 33) - 1)
