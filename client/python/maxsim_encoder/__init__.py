"""maxsim-encoder: serves a late-interaction model over HTTP, texts in, one vector a token out.

Importing this package imports nothing heavy. NumPy is wanted by the vectors, `tokenizers` and `safetensors` by the demo
model, and sentence-transformers or PyLate by the loader that is named after them; each is imported when it is used.
"""

__version__ = "0.2.0"
