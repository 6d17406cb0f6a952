"""The packages of the peers, and how each scores a row."""

import functools
import importlib.metadata
import sys

FLASH, LIK = "flash-maxsim", "late-interaction-kernels"


class Peers:
    """The installed or unpacked packages, and how each scores a row."""

    def __init__(self, torch):
        import flash_maxsim
        import late_interaction_kernels
        from late_interaction_kernels import fp8, score_pairs

        self.torch, self.flash, self.lik = torch, flash_maxsim, late_interaction_kernels
        self.fp8, self.pairs = fp8, score_pairs
        self.flash_name = f"{FLASH} {importlib.metadata.version(FLASH)}"
        self.lik_name = f"{LIK} {importlib.metadata.version(LIK)}"
        self.torch_name = f"torch.topk {torch.__version__.split('+')[0]}"

    def methods(self, inputs):
        """Returns (peer, method, prepare) for every method that can score the row. prepare() returns the call to
        time."""
        if inputs.kind == "topk":
            k = inputs.shape["k"]
            return [(self.torch_name, "topk", lambda: lambda: inputs.scores.topk(k))]
        if inputs.storage == "i8" and not inputs.shape["ragged"] and inputs.lists is None:
            return self.eight_bit(inputs)
        if inputs.lists is not None:
            return self.by_list(inputs)
        return self.ragged(inputs) if inputs.shape["ragged"] else self.uniform(inputs)

    def uniform(self, inputs):
        queries, documents = inputs.queries, inputs.documents
        if inputs.num_queries == 1:
            return [
                (self.flash_name, "flash_maxsim", lambda: lambda: self.flash.flash_maxsim(queries[0], documents)),
                (self.lik_name, "maxsim", lambda: lambda: self.lik.maxsim(queries[0], documents)),
            ]

        def batched(**options):
            return lambda: lambda: self.flash.flash_maxsim_batched(queries, documents, shared_docs=True, **options)

        return [
            (self.flash_name, "flash_maxsim_batched", batched()),
            (self.flash_name, "flash_maxsim_batched, unpadded", batched(pad_lq=False)),
            (self.lik_name, "maxsim", lambda: lambda: self.lik.maxsim(queries, documents)),
        ]

    def boundaries(self, inputs):
        """Returns the bounds of queries and of documents that the packed interfaces take."""
        torch = self.torch
        query_bounds = torch.arange(inputs.num_queries + 1, device="cuda") * inputs.query_tokens
        return query_bounds.int(), inputs.offsets.int().cuda()

    def ragged(self, inputs):
        queries, rows, longest = inputs.queries, inputs.rows, inputs.max_tokens
        query_bounds, document_bounds = self.boundaries(inputs)
        packed_queries = queries.reshape(-1, inputs.dim)

        def one_by_one():
            return [self.flash.flash_maxsim_packed(query, rows, document_bounds, longest) for query in queries]

        def together():
            return self.lik.maxsim_varlen(
                packed_queries, rows, query_bounds, document_bounds, inputs.query_tokens, longest
            )

        return [
            (self.flash_name, "flash_maxsim_packed, a query at a time", lambda: one_by_one),
            (self.lik_name, "maxsim_varlen", lambda: together),
        ]

    def by_list(self, inputs):
        torch = self.torch
        queries, rows, lists = inputs.queries, inputs.rows, inputs.lists
        query_bounds, document_bounds = self.boundaries(inputs)
        first = inputs.offsets[lists].int().cuda()
        lengths = (inputs.offsets[lists + 1] - inputs.offsets[lists]).int().cuda()
        longest = int(lengths.max())
        packed_queries = queries.reshape(-1, inputs.dim)
        pair_query = torch.arange(len(lists)).repeat_interleave(lists.shape[1]).int().cuda()
        pair_document = lists.reshape(-1).int().cuda()

        def one_by_one():
            return [
                self.flash.flash_maxsim_rerank_direct(query, rows, first[n], lengths[n], longest)
                for n, query in enumerate(queries)
            ]

        def together():
            return self.pairs.score_pairs_packed(
                packed_queries,
                rows,
                query_bounds,
                document_bounds,
                pair_query,
                pair_document,
                max_seqlen_q=inputs.query_tokens,
                max_seqlen_d=inputs.max_tokens,
            )

        return [
            (self.flash_name, "flash_maxsim_rerank_direct, a query at a time", lambda: one_by_one),
            (self.lik_name, "score_pairs_packed", lambda: together),
        ]

    def eight_bit(self, inputs):
        queries, documents = inputs.queries, inputs.documents

        def int8():
            elements, scales = self.flash.quantize_int8_symmetric(documents)
            quantised = [self.flash.quantize_query_int8(query) for query in queries]
            return lambda: [
                self.flash.flash_maxsim_int8x8(query, elements, scales, *parts)
                for query, parts in zip(queries, quantised)
            ]

        def fp8():
            query, query_scales = self.fp8.quantize_fp8_per_token(queries[0] if len(queries) == 1 else queries)
            elements, scales = self.fp8.quantize_fp8_per_token(documents)
            return lambda: self.fp8.maxsim_inference_fp8(query, elements, scale_Q=query_scales, scale_D=scales)

        one_by_one = "" if len(queries) == 1 else ", a query at a time"
        return [
            (f"{self.flash_name} int8", "flash_maxsim_int8x8" + one_by_one, int8),
            (f"{self.lik_name} fp8", "maxsim_inference_fp8 per token", fp8),
        ]

    def tuned_kernels(self):
        from triton.runtime.autotuner import Autotuner

        packages = ("flash_maxsim", "late_interaction_kernels")
        modules = [module for name, module in sys.modules.items() if name.split(".")[0] in packages]
        kernels = [kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, Autotuner)]
        return list({id(kernel): kernel for kernel in kernels}.values())

    def keep_part_of_tuning(self, part, parts):
        """Reduces the tuning choices of every tuned kernel to those with the numbers part, part + parts and so on."""
        for kernel in self.tuned_kernels():
            kernel.configs = kernel.configs[part::parts]

    def tune_for(self, milliseconds):
        """Makes tuning time every choice for this many milliseconds, instead of Triton's 125."""
        from triton.testing import do_bench

        for kernel in self.tuned_kernels():
            kernel.do_bench = functools.partial(do_bench, warmup=milliseconds / 4, rep=milliseconds)
            kernel.cache_results = False  # a choice made this fast must not be reused by a later run
