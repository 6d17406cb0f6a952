"""PyLate's scoring functions in plain PyTorch, with PyLate's names and arguments."""

import torch


def _scores(similarities, queries_mask, documents_mask):
    """Returns MaxSim scores [...] of similarities [..., Lq, Ld]: for each query token the largest, summed over query
    tokens."""
    if documents_mask is not None:
        similarities = similarities.masked_fill(documents_mask.unsqueeze(-2) == 0, float("-inf"))
    best = similarities.max(-1).values
    return (best if queries_mask is None else best * queries_mask).sum(-1)


def colbert_scores(queries_embeddings, documents_embeddings, queries_mask=None, documents_mask=None):
    """Returns scores [Nq, Nd] for queries [Nq, Lq, d] and documents [Nd, Ld, d]."""
    similarities = torch.einsum("qid,njd->qnij", queries_embeddings, documents_embeddings)
    return _scores(similarities, None if queries_mask is None else queries_mask.unsqueeze(1), documents_mask)


def colbert_kd_scores(queries_embeddings, documents_embeddings, queries_mask=None, documents_mask=None):
    """Returns scores [Nq, K] for queries [Nq, Lq, d] and documents [Nq, K, Ld, d]."""
    similarities = torch.einsum("qid,qkjd->qkij", queries_embeddings, documents_embeddings)
    return _scores(similarities, None if queries_mask is None else queries_mask.unsqueeze(1), documents_mask)
