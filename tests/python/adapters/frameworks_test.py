"""Tests the adapters for LangChain, LlamaIndex, Haystack, rerankers and sentence-transformers with the real packages.
Three kinds of documents must be ranked by exact MaxSim: texts that the server's encoder encodes, texts that a
MultiVectorEncoder (with MiniLM) encodes, and stored documents that are named by id. Retrievers must find the documents
that match a filter. Also runs the programs of examples/python_frameworks.

python frameworks_test.py FOLDER_OF_THE_PROGRAMS [FRAMEWORK...]      default: all
"""

import importlib
import os
import pathlib
import sys
import unittest

# Without these variables, Haystack and LangChain send usage data.
os.environ.update(HAYSTACK_TELEMETRY_ENABLED="false", LANGSMITH_TRACING="false", NO_PROXY="127.0.0.1")

from frameworks_world import World  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
FRAMEWORKS = ["langchain", "llama_index", "haystack", "rerankers", "sentence_transformers", "examples"]
FRAMEWORKS += ["langchain_retriever", "llama_index_retriever", "haystack_retriever"]
WORLD: World


def load_tests(loader, suite, pattern):
    for name in sys.argv[1:] or FRAMEWORKS:
        suite.addTests(loader.loadTestsFromModule(importlib.import_module(f"{name}_test")))
    return suite


if __name__ == "__main__":
    with World() as WORLD:
        WORLD.start(PROGRAMS)
        done = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False)
    sys.exit(not done.result.wasSuccessful())
