"""Adapters for retrieval frameworks. Each is a module that imports its framework: maxsim.adapters.langchain,
.llama_index, .haystack, .rerankers, .sentence_transformers and .pylate."""
