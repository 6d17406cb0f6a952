"""The server and the MultiVectorEncoder of MiniLM that all tests of frameworks share."""

import pathlib
import sys

import adapters_fixture


class World(adapters_fixture.World):
    def start(self, programs: pathlib.Path, num_documents: int = 10) -> None:
        super().start(programs, num_documents)
        import minilm_models
        import torch
        from sentence_transformers import MultiVectorEncoder

        torch.set_num_threads(1)
        self.model_folder = self.folder / "minilm-multi-vector"
        minilm_models.make_multi_vector_encoder(self.model_folder)
        self.model = MultiVectorEncoder(str(self.model_folder), device="cpu")


def world() -> World:
    """Returns the world that frameworks_test.py has made."""
    made: World = sys.modules["__main__"].WORLD
    return made
