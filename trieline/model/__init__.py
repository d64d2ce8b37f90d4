"""What spells: models that read a query and score the next code of a docid.

Belongs here: layers, readers of queries, output heads, checkpoints. Does not: what exists (index),
which prefixes are kept (decode), how weights are learnt (train).
"""

from trieline.model.heads import Alphabet
from trieline.model.readers import Asked
from trieline.model.seq2seq import Speller, build_speller, load_speller

__all__ = ["Alphabet", "Asked", "Speller", "build_speller", "load_speller"]
