"""Add items to an index and take items away, without training anything again.

Run it where ``corpus/`` is a BEIR folder.
"""

from trieline import Item, Retriever

SMALL = [
    "ids.sizes=[8, 8]",
    "model.width=64",
    "model.heads=2",
    "model.decoder_layers=1",
    "train.min_steps=0",
    "train.max_steps=250",
    "train.measure=RR@10",
    "decode.omega=6.0",  # codes near the query's vector get a vote, which needs no training
]
QUESTION = "mixes fruit and milk"


def ask(retriever: Retriever) -> None:
    """Print the first answers."""
    (hits,) = retriever.search(QUESTION, k=5)
    print(f"{len(retriever)} items, {QUESTION!r}:", ", ".join(hit.item_id for hit in hits))


with Retriever.build("corpus", "genius", path="live.tl", settings=SMALL) as retriever:
    ask(retriever)

    # A new item gets the docid nearest to its vector, which may be that of something like it: then
    # they share it, and whoever spells it finds both. With ids.collisions="extra" they never do.
    blender = Item("blender", "A blender mixes fruit and milk to a smoothie.", "Blender")
    retriever.add([blender])
    ask(retriever)

    # What is on disk has changed too: whoever opens the index next sees the same.
    with Retriever.load("live.tl") as again:
        print("opened again:", "blender" in again.catalog)

    retriever.remove(["blender"])
    ask(retriever)

    # A filter leaves only some items findable, for one search.
    (hits,) = retriever.search(QUESTION, k=3, filter=["sieve", "whisk"])
    print("among two:", ", ".join(hit.item_id for hit in hits))
