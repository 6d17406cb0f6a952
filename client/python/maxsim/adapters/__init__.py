"""Adapters for frameworks of retrieval, each a module that imports its framework: maxsim.adapters.langchain,
.llama_index, .haystack, .rerankers, .sentence_transformers and .pylate."""
