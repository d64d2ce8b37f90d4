"""How well codes stand for vectors: the residual quantiser beside faiss's, at the same budget.

Same vectors, sizes and beam for everybody. Squared error of the vectors that the codebooks were
learnt from (and, with --held, of vectors kept out), share of vectors that share their codes,
seconds to learn. The bar is faiss.ResidualQuantizer as it comes; its own refinement of the
codebooks, which is off unless asked for, is shown too, as are our refinements.

    python bench/ids.py                              a mixture of clusters
    python bench/ids.py --vectors corpus.npy         vectors of your own, float32[N, D]
    python bench/ids.py --vectors corpus.npy --held 0.2 --systems ours,ema,gradient,faiss
    python bench/ids.py --quick --json               one object: what -> value, bar, holds

On a busy machine set OMP_WAIT_POLICY=PASSIVE: faiss's threads wait by spinning otherwise.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.evaluate.table import Column, Table, to_markdown
from trieline.ids import ResidualIds
from trieline.types import Floats

__all__ = ["main"]

SHAPES = "8x256,4x256,3x256,16x128"
SYSTEMS = "faiss,faiss refined,ours,ema"
REFINE: dict[str, Literal["none", "ema", "gradient"]] = {
    "ours": "none",
    "ema": "ema",
    "gradient": "gradient",
}


class Line(NamedTuple):
    """One system at one shape and beam."""

    shape: str
    beam: int
    system: str
    error: float
    held: float | None  # error of vectors that were kept out
    collisions: float
    seconds: float


def mixture(items: int, width: int, seed: int) -> Floats:
    """Unit vectors float32[items, width]: clusters of clusters, large and small ones."""
    rng = np.random.default_rng(seed)
    top = rng.standard_normal((40, width), np.float32)
    sub = 0.7 * rng.standard_normal((800, width), np.float32)
    weight = 1 / np.arange(1, 41) ** 0.7
    cluster = rng.choice(40, items, p=weight / weight.sum())
    vectors = top[cluster] + sub[cluster * 20 + rng.integers(0, 20, items)]
    vectors += 0.6 * rng.standard_normal((items, width), np.float32)
    unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def sizes_of(shape: str) -> tuple[int, ...]:
    """ "8x256" -> eight levels of 256 codes."""
    levels, _, size = shape.partition("x")
    return (int(size),) * int(levels)


def error_of(vectors: Floats, restored: Floats) -> float:
    return float(((vectors - restored) ** 2).sum(axis=1).mean())


def shared(codes: NDArray[np.generic]) -> float:
    _, group, count = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    return float((count[group.ravel()] > 1).mean())


def measure_ours(system: str, shape: str, beam: int, seen: Floats, held: Floats, seed: int) -> Line:
    settings = IdSettings(sizes=sizes_of(shape), beam=beam, refine=REFINE[system])
    start = time.perf_counter()
    docids = ResidualIds(settings, seed).fit(seen)
    seconds = time.perf_counter() - start
    codes = docids.assign(seen).codes
    kept = docids.assign(held).codes
    return Line(
        shape,
        beam,
        system,
        error_of(seen, docids.reconstruct(codes)),
        error_of(held, docids.reconstruct(kept)) if len(held) else None,
        shared(codes),
        seconds,
    )


def measure_faiss(system: str, shape: str, beam: int, seen: Floats, held: Floats) -> Line:
    import faiss

    sizes = sizes_of(shape)
    bits = int(np.log2(sizes[0]))
    if 1 << bits != sizes[0]:
        raise typer.BadParameter(f"{shape}: faiss needs sizes that are powers of two")
    quantiser: Any = faiss.ResidualQuantizer(seen.shape[1], len(sizes), bits)
    quantiser.max_beam_size = beam
    quantiser.cp.min_points_per_centroid = 1
    if system == "faiss refined":
        quantiser.train_type |= quantiser.Train_refine_codebook
    start = time.perf_counter()
    quantiser.train(seen)
    seconds = time.perf_counter() - start
    codes = quantiser.compute_codes(seen)
    kept = quantiser.decode(quantiser.compute_codes(held)) if len(held) else None
    return Line(
        shape,
        beam,
        system,
        error_of(seen, quantiser.decode(codes)),
        None if kept is None else error_of(held, kept),
        shared(codes),
        seconds,
    )


def report(lines: list[Line], name: str, count: int) -> Table:
    columns = (
        Column("codes"),
        Column("beam", "d"),
        Column("system"),
        Column("squared error", ".4f"),
        Column("kept out", ".4f"),
        Column("shared codes", ".2%"),
        Column("seconds", ".1f"),
    )
    return Table(columns, tuple(lines), f"{name}: {count:,} vectors")


def verdicts(lines: list[Line]) -> dict[str, Any]:
    """Shape and beam -> ours against faiss as it comes."""
    found: dict[str, Any] = {}
    errors = {(line.shape, line.beam, line.system): line.error for line in lines}
    for (shape, beam, system), error in errors.items():
        bar = errors.get((shape, beam, "faiss"))
        if system == "ours" and bar is not None:
            others = [x._asdict() for x in lines if (x.shape, x.beam) == (shape, beam)]
            found[f"{shape}, beam {beam}: squared error"] = {
                "value": error,
                "bar": bar,
                "baseline": bar,
                "holds": error <= bar,
                "systems": others,
            }
    return found


def main(
    vectors: Annotated[Path | None, typer.Option(help="float32[N, D] as .npy.")] = None,
    shapes: Annotated[str, typer.Option(help="Levels x codes.")] = SHAPES,
    beams: Annotated[str, typer.Option(help="Beam widths of the assignment.")] = "1,5",
    systems: Annotated[str, typer.Option(help="Also: gradient.")] = SYSTEMS,
    held: Annotated[float, typer.Option(help="Share of vectors kept out of learning.")] = 0.0,
    quick: Annotated[bool, typer.Option(help="2,000 vectors, two shapes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    seed: int = 0,
) -> None:
    """Measure; exit 1 where faiss is better."""
    items = mixture(6000, 128, seed) if vectors is None else np.load(vectors).astype(np.float32)
    if quick:
        items, shapes = items[:2000], "4x64,3x256"
    order = np.random.default_rng(seed).permutation(len(items))
    cut = int(held * len(items))
    seen, kept = items[np.sort(order[cut:])], items[np.sort(order[:cut])]
    lines = []
    for shape in shapes.split(","):
        for beam in map(int, beams.split(",")):
            for system in systems.split(","):
                if system in REFINE:
                    lines.append(measure_ours(system, shape, beam, seen, kept, seed))
                else:
                    lines.append(measure_faiss(system, shape, beam, seen, kept))
    found = verdicts(lines)
    if as_json:
        json.dump(found, sys.stdout, indent=1)
    else:
        name = "mixture" if vectors is None else vectors.stem
        print(to_markdown(report(lines, name, len(seen))))
        better = sum(each["holds"] for each in found.values())
        print(f"No worse than faiss as it comes in {better} of {len(found)} rows.")
    raise typer.Exit(0 if all(each["holds"] for each in found.values()) else 1)


if __name__ == "__main__":
    typer.run(main)
