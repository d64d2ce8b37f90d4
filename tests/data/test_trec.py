"""TREC runs and judgements: round trips, parity with ir_measures, errors, atomic writing."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.data import read_qrels, read_run, trec, write_qrels, write_run
from trieline.errors import DataError, FormatError, SettingsError, TrielineError
from trieline.types import Hit, Qrel

# Any character but white space of C, NUL, byte order marks and lone surrogates.
words = st.text(
    st.characters(exclude_characters=" \t\r\n\f\v\x00\ufeff", exclude_categories=("Cs",)),
    min_size=1,
    max_size=8,
)
# What str.split() leaves whole, for other readers of the same files.
plain = words.filter(lambda word: word.split() == [word])
scores = st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0, 0.5])


def runs(ids: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, list[Hit]]]:
    ranked = st.dictionaries(ids, scores, min_size=1, max_size=6)
    return st.dictionaries(ids, ranked, max_size=5).map(
        lambda found: {
            query: trec.rank([Hit(item, score) for item, score in hits.items()])
            for query, hits in found.items()
        }
    )


def judgements(ids: st.SearchStrategy[str]) -> st.SearchStrategy[list[Qrel]]:
    return st.lists(st.builds(Qrel, ids, ids, st.integers(-3, 10)), max_size=20)


@settings(deadline=None)
@given(runs(words), st.sampled_from(["run.txt", "run.txt.gz"]))
def test_runs_come_back_as_they_went(run, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_run(path, run)
        back = read_run(path)
    assert back == run
    assert list(back) == list(run)


@settings(deadline=None)
@given(judgements(words), st.sampled_from(["qrels.txt", "qrels.txt.gz"]))
def test_judgements_come_back_as_they_went(qrels, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_qrels(path, qrels)
        assert list(read_qrels(path)) == qrels


@settings(deadline=None)
@given(runs(plain), judgements(plain))
def test_ir_measures_reads_the_same(run, qrels):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.txt"
        write_run(path, run)
        theirs = {(doc.query_id, doc.doc_id, doc.score) for doc in _theirs_run(path)}
        write_qrels(path, qrels)
        judged = [Qrel(*row[:3]) for row in _theirs_qrels(path)]
    assert theirs == {(q, hit.item_id, hit.score) for q, hits in run.items() for hit in hits}
    assert judged == qrels


def _theirs_run(path: Path):
    with path.open(encoding="utf-8", newline="\n") as file:
        return list(ir_measures.read_trec_run(file))


def _theirs_qrels(path: Path):
    with path.open(encoding="utf-8", newline="\n") as file:
        return list(ir_measures.read_trec_qrels(file))


@settings(deadline=None)
@given(runs(plain), st.data())
def test_first_place_is_what_trec_eval_calls_first(run, data):
    """Reciprocal rank by trec_eval, of one relevant item, is one over our rank; ties included."""
    qrels, docs, expected = [], [], {}
    for query, hits in run.items():
        coarse = trec.rank([hit._replace(score=float(hit.score > 0.5)) for hit in hits])
        hit = data.draw(st.sampled_from(coarse))
        qrels.append(ir_measures.Qrel(query, hit.item_id, 1))
        docs += [ir_measures.ScoredDoc(query, other.item_id, other.score) for other in coarse]
        expected[query] = pytest.approx(1 / hit.rank)
    values = ir_measures.pytrec_eval.iter_calc([ir_measures.RR], qrels, docs) if run else []
    assert {value.query_id: value.value for value in values} == expected


def test_a_run_file_as_it_stands_on_disk(tmp_path: Path):
    run = {"q1": [Hit("a", 0.5), Hit("b", 1.5), Hit("c", 0.5)], "q2": [], "q3": [Hit("a", -1)]}
    write_run(tmp_path / "r", run, tag="sys")
    assert (tmp_path / "r").read_text() == (
        "q1 Q0 b 1 1.5 sys\nq1 Q0 c 2 0.5 sys\nq1 Q0 a 3 0.5 sys\nq3 Q0 a 1 -1.0 sys\n"
    )
    write_qrels(tmp_path / "q", [Qrel("q1", "a", 2), Qrel("q1", "b", -1)])
    assert (tmp_path / "q").read_text() == "q1 0 a 2\nq1 0 b -1\n"


def test_ranks_come_from_scores_and_not_from_the_file(put):
    text = "\ufeffq1 Q0 a 1 0.25 t\r\n\r\nq1\tQ0\tb\t2\t7e-1\tt\r\n q1  Q0 c x 0.25 t \r\n"
    hits = read_run(put("r.txt", text))["q1"]
    assert [(hit.item_id, hit.score, hit.rank) for hit in hits] == [
        ("b", 0.7, 1),
        ("c", 0.25, 2),
        ("a", 0.25, 3),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 b 2 0.5", "expected 'query Q0 item rank score tag', got 5 columns: 'q1 Q0 b"),
        ("q1 Q0 b 2 0.5 t u", "got 7 columns"),
        ("q1 Q0 b 2 high t", r"expected a number as score \(5th column\), got 'high'"),
        ("q1 Q0 b 2 nan t", "got 'nan'"),
        ("q1 Q0 b 2 1_0 t", "got '1_0'"),
        ("q1 Q0 a 2 0.5 t", "expected each item once for query 'q1', got 'a'"),
    ],
)
@pytest.mark.parametrize("end", ["", ".gz"])
def test_bad_run_lines(put, line: str, message: str, end: str):
    path = put(f"r.txt{end}", f"q1 Q0 a 1 1 t\n\n{line}\n")
    with pytest.raises(FormatError, match="line 3: .*" + message):
        read_run(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 a 1", "expected 'query 0 item relevance', got 3 columns"),
        ("q1 0 a 1 x", "got 5 columns"),
        ("q1 0 a good", r"expected a whole number as relevance \(4th column\), got 'good'"),
        ("q1 0 a 0.5", "got '0.5'"),
    ],
)
def test_bad_judgement_lines(put, line: str, message: str):
    with pytest.raises(FormatError, match="line 2: .*" + message):
        list(read_qrels(put("q.txt", f"q1 0 a 1\n{line}\n")))


@pytest.mark.parametrize("bad", ["", "a b", "a\tb", "a\x00", "a\n", "\ufeffa", "\ud800"])
def test_ids_that_the_format_cannot_hold(tmp_path: Path, bad: str):
    path = tmp_path / "r.txt"
    with pytest.raises(DataError, match=r"item id .* cannot stand in a TREC file"):
        write_run(path, {"q": [Hit(bad, 1.0)]})
    with pytest.raises(DataError, match=r"query id .* cannot stand in a TREC file"):
        write_run(path, {bad: [Hit("a", 1.0)]})
    with pytest.raises(DataError, match=r"query id .* cannot stand in a TREC file"):
        write_qrels(path, [Qrel(bad, "a", 1)])
    with pytest.raises(SettingsError, match="needs one word"):
        write_run(path, {}, tag=bad)
    assert list(tmp_path.iterdir()) == []


def test_runs_that_make_no_sense(tmp_path: Path):
    with pytest.raises(DataError, match="score of item 'a' is NaN"):
        write_run(tmp_path / "r", {"q": [Hit("a", float("nan"))]})
    with pytest.raises(DataError, match="query 'q' has item 'a' twice"):
        write_run(tmp_path / "r", {"q": [Hit("a", 1.0), Hit("a", 2.0)]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["r.txt", "r.txt.gz"])
def test_a_failure_leaves_the_old_file(tmp_path: Path, name: str):
    path = tmp_path / name
    write_qrels(path, [Qrel("q", "a", 1)])
    old = path.read_bytes()

    def failing():
        yield Qrel("q", "b", 1)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write_qrels(path, failing())
    assert path.read_bytes() == old
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_full_disk_is_told_and_leaves_the_old_file(tmp_path: Path, monkeypatch):
    path = tmp_path / "r.txt"
    write_qrels(path, [Qrel("q", "a", 1)])

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(TrielineError, match=r"cannot write .*No space left.*is unchanged"):
        write_qrels(path, [Qrel("q", "b", 1)])
    assert list(read_qrels(path)) == [Qrel("q", "a", 1)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.txt"]


def test_equal_runs_are_equal_files(tmp_path: Path):
    run = {"q": [Hit("a", 1.0)]}
    write_run(tmp_path / "a.gz", run)
    write_run(tmp_path / "b.gz", run)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"q Q0 a 1 1.0 trieline\n"


def test_files_are_made_with_the_usual_permissions(tmp_path: Path):
    write_run(tmp_path / "r", {})
    (tmp_path / "other").touch()
    assert (tmp_path / "r").stat().st_mode == (tmp_path / "other").stat().st_mode
