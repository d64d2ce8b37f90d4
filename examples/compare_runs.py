"""Measure two settings on judged queries, and see whether their difference is more than chance.

Run it where ``corpus/`` is a BEIR folder with a test split.
"""

from rich.console import Console

from trieline import Retriever, compare, open_dataset, score, write_run
from trieline.evaluate.table import comparison_table, score_table, to_rich

SMALL = [
    "ids.sizes=[16, 16, 16]",
    "model.width=64",
    "model.heads=2",
    "model.decoder_layers=1",
    "train.min_steps=0",
    "train.max_steps=250",
    "train.measure=RR@10",
]

dataset = open_dataset("corpus")
queries, qrels = list(dataset.queries("test")), list(dataset.qrels("test"))
print(f"{len(queries)} test queries")

scores = {}
for name, omega in (("plain", 0.0), ("with vote", 3.0)):  # of codes near the query's vector
    settings = [*SMALL, f"decode.omega={omega}"]
    path = f"omega-{omega:g}.tl"
    with Retriever.build(dataset, "genius", path=path, settings=settings) as retriever:
        run = retriever.run(queries, k=10)
        # The share of queries whose answer is still there after each level, with a beam of one.
        lived = retriever.survival(queries, qrels, beam=1).levels
    write_run(f"omega-{omega:g}.run", run)  # as TREC tools read it
    scores[name] = score(run, qrels)
    print(f"{name}: prefixes that survive", " ".join(f"{share:.2f}" for share in lived))

console = Console(width=120)
console.print(to_rich(score_table(scores, title="test")))
compared = compare(scores["with vote"], scores["plain"])
console.print(to_rich(comparison_table(compared, "a = with vote, b = plain, paired by query")))
