"""From a model of sentence-transformers to a ranked answer, in ten lines. A maxsimd runs, with or without collections.

    pip install maxsim sentence-transformers
    python examples/python_frameworks/first_answer.py [SERVER [MODEL]]
"""

import sys

SERVER, MODEL = [*sys.argv[1:], *["localhost:7070", "lightonai/GTE-ModernColBERT-v1"][len(sys.argv) - 1 :]]

from maxsim import Client
from sentence_transformers import MultiVectorEncoder

model = MultiVectorEncoder(MODEL)
documents = ["Bread rises because yeast makes gas.", "Thick magma traps gas until it bursts.", "Bees dance to tell the way."]
query = model.encode_query("Why do volcanoes explode?")
vectors = model.encode_document(documents)
with Client(SERVER) as client:
    for hit in client.rerank(None, query, documents=vectors):
        print(f"{hit.score:.2f}  {documents[hit.position]}")
