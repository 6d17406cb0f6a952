"""Scores in plain PyTorch, with the names and arguments that they have in PyLate."""

import torch


def _scores(similarities, queries_mask, documents_mask):
    """The sums over query tokens [..., Lq] of the largest of similarities [..., Lq, Ld]."""
    if documents_mask is not None:
        similarities = similarities.masked_fill(documents_mask.unsqueeze(-2) == 0, float("-inf"))
    best = similarities.max(-1).values
    return (best if queries_mask is None else best * queries_mask).sum(-1)


def colbert_scores(queries_embeddings, documents_embeddings, queries_mask=None, documents_mask=None):
    """[Nq, Nd] of [Nq, Lq, d] and [Nd, Ld, d]."""
    similarities = torch.einsum("qid,njd->qnij", queries_embeddings, documents_embeddings)
    return _scores(similarities, None if queries_mask is None else queries_mask.unsqueeze(1), documents_mask)


def colbert_kd_scores(queries_embeddings, documents_embeddings, queries_mask=None, documents_mask=None):
    """[Nq, K] of [Nq, Lq, d] and [Nq, K, Ld, d]."""
    similarities = torch.einsum("qid,qkjd->qkij", queries_embeddings, documents_embeddings)
    return _scores(similarities, None if queries_mask is None else queries_mask.unsqueeze(1), documents_mask)
