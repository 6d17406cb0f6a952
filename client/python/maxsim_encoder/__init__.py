"""maxsim-encoder: serves a late-interaction model over HTTP, which turns each text into one vector per token.

Importing this package imports nothing large. The vectors need NumPy, the demo model needs `tokenizers` and
`safetensors`, and each loader needs the library after which it is named, sentence-transformers or PyLate. These
libraries are imported at their first use.
"""

__version__ = "0.2.0"
