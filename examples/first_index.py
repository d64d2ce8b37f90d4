"""Build an index of a folder, ask it, and ask why an answer is where it is.

Run it where ``corpus/`` is a BEIR folder: corpus.jsonl, queries.jsonl, qrels/*.tsv.
"""

from trieline import Retriever

# The shipped recipe, cut down to seconds: smaller levels, a narrower model, less training.
SMALL = [
    "ids.sizes=[16, 16, 16]",
    "model.width=64",
    "model.heads=2",
    "model.decoder_layers=1",
    "train.min_steps=0",
    "train.max_steps=250",
    "train.measure=RR@10",
]

retriever = Retriever.build("corpus", "genius", path="first.tl", settings=SMALL)
print(f"{len(retriever)} items\n")

question = "something that bakes bread"
(hits,) = retriever.search(question, k=5)
print(question)
for hit in hits:
    print(f"{hit.rank:>3}  {hit.score:7.2f}  {hit.title:12} {hit.docid}")

# Where its docid stood at every level: first with the usual beam, then with one place only.
print()
print(retriever.explain(question, hits[1].item_id).text())
print()
print(retriever.explain(question, hits[-1].item_id, beam=1).text())
retriever.close()
