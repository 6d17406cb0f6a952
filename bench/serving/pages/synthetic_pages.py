"""Makes synthetic vectors of pages, block by block: on a GPU if PyTorch has one, otherwise with NumPy.

A page consists of regions of 16 patches. Each region has one of 16,384 topics, and the vectors of its patches are the
topic's vector with noise. So neighbouring patches resemble each other, as on a real page, and so do pages that have a
topic in common.
"""

import numpy as np

TOPICS = 16384
REGION = 16  # patches
PATCH_NOISE = 0.5  # length of the noise that is added to a topic of length 1
QUESTION_NOISE = 0.3
QUESTION_TOKENS = 20
SEED = 7


def _gpu():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


class PageMaker:
    """Makes the pages of one collection. `device` says what makes the random numbers, "NumPy" or the GPU's name: the
    pages of the two differ."""

    def __init__(self, tokens, dim):
        self._tokens, self._dim = tokens, dim
        topics = np.random.default_rng(SEED).standard_normal((TOPICS, dim), np.float32)
        self._topics = topics / np.linalg.norm(topics, axis=1, keepdims=True)
        self._torch = _gpu()
        self.device = "NumPy"
        if self._torch is not None:
            self.device = self._torch.cuda.get_device_name(0)
            self._topics = self._torch.from_numpy(self._topics).cuda()

    def block(self, number, count):
        """Returns the vectors of `count` pages, float16 [count, tokens, dim], each of length 1. The same number
        and count give the same pages; another number gives others."""
        chooser = np.random.default_rng([SEED, number])
        chosen = chooser.integers(TOPICS, size=(count, -(-self._tokens // REGION)))
        chosen = np.repeat(chosen, REGION, axis=1)[:, : self._tokens]
        scale = PATCH_NOISE / np.sqrt(self._dim)
        if self._torch is None:
            pages = chooser.standard_normal((count, self._tokens, self._dim), np.float32)
            pages *= scale
            pages += self._topics[chosen]
            pages /= np.linalg.norm(pages, axis=2, keepdims=True)
            return pages.astype(np.float16)
        torch = self._torch
        generator = torch.Generator(device="cuda").manual_seed((SEED << 32) + number)
        pages = torch.randn((count, self._tokens, self._dim), device="cuda", generator=generator)
        pages = pages.mul_(scale).add_(self._topics[torch.from_numpy(chosen).cuda()])
        return torch.nn.functional.normalize(pages, dim=2).half().cpu().numpy()


def question(page, number):
    """Returns a question about a page: some of its vectors with noise, float16 [QUESTION_TOKENS, dim]. `page` has its
    vectors, [tokens, dim]. `number` is the seed of the choice and of the noise."""
    chooser = np.random.default_rng([SEED, 1 << 40, number])
    rows = page[chooser.integers(len(page), size=QUESTION_TOKENS)].astype(np.float32)
    rows += chooser.standard_normal(rows.shape, np.float32) * (QUESTION_NOISE / np.sqrt(page.shape[1]))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
