"""From a model of sentence-transformers to a ranked answer, in ten lines. Needs a running maxsimd, with or without
collections.

    pip install ./client/python 'sentence-transformers>=6'
    python examples/python_frameworks/first_answer.py [SERVER [MODEL]]
"""

import sys

SERVER, MODEL = [*sys.argv[1:], *["localhost:7070", "lightonai/GTE-ModernColBERT-v1"][len(sys.argv) - 1 :]]

from maxsim import Client
from sentence_transformers import MultiVectorEncoder

passages = ["Stiff magma holds its gas until it blows.", "Dough rises on the gas of yeast.", "Bees dance to show the way."]
model = MultiVectorEncoder(MODEL)
query, documents = model.encode_query("Why do volcanoes explode?"), model.encode_document(passages)
with Client(SERVER) as client:
    ranking = client.rerank(None, query, documents=documents)
for document in ranking:
    print(f"{document.score:8.4f}  {passages[document.position]}")
