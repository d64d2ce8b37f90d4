"""Numbered lines: encodings, line ends, damage."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from trieline.data import lines
from trieline.data.lines import find_file, read_lines, short, whole_number
from trieline.errors import DataError, FormatError


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_keep_their_numbers_past_blank_ones(put, name):
    path = put(name, "one\n\n  \t\nfour\n\nsix")
    assert list(read_lines(path)) == [(1, "one"), (4, "four"), (6, "six")]
    assert [number for number, _ in read_lines(path, blank=True)] == [1, 2, 3, 4, 5, 6]


def test_byte_order_mark_and_windows_line_ends_are_taken_off(put):
    path = put("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n\r\nfour")
    assert list(read_lines(path)) == [(1, "one"), (2, "two"), (4, "four")]


def test_only_a_line_feed_ends_a_line(put):
    text = "a\u2028b\u0085c\x0bd\x1ce\rf"
    assert list(read_lines(put("a.txt", text + "\nnext\n"))) == [(1, text), (2, "next")]


def test_an_empty_file_has_no_lines(put):
    assert list(read_lines(put("a.txt", ""))) == []
    assert list(read_lines(put("a.txt.gz", ""))) == []


def test_other_encodings_are_named_by_line(put):
    path = put("a.txt", b"good\n" + "Grün\n".encode("latin1"))
    with pytest.raises(FormatError, match=r"a\.txt line 2: expected UTF-8 text, got the byte 0xfc"):
        list(read_lines(path))


def test_a_cut_off_gzip_file_is_named(tmp_path: Path):
    text = "".join(f"line {n} {hash(n * 7919) % 99991}\n" for n in range(5000))
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(text.encode())[:-2000])
    with pytest.raises(FormatError, match="a whole gzip file") as caught:
        list(read_lines(path))
    assert caught.value.line is not None and caught.value.line > 1


def test_a_damaged_gzip_file_is_named(tmp_path: Path):
    packed = bytearray(gzip.compress(b"some text\n" * 1000))
    packed[20:30] = b"\xff" * 10
    path = tmp_path / "a.txt.gz"
    path.write_bytes(bytes(packed))
    with pytest.raises(FormatError, match="a whole gzip file"):
        list(read_lines(path))


def test_a_plain_file_called_gz_is_named(tmp_path: Path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(b"not packed\n")
    with pytest.raises(FormatError, match="a whole gzip file"):
        list(read_lines(path))


def test_an_endless_line_is_refused_before_it_fills_the_memory(put, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    path = put("a.txt", "short\n" + "x" * 5000 + "\n")
    with pytest.raises(FormatError, match=r"line 2.*a longer one"):
        list(read_lines(path))
    assert [len(text) for _, text in read_lines(put("b.txt", "y" * 999 + "\n"))] == [999]


def test_missing_files_and_folders(tmp_path: Path):
    with pytest.raises(DataError, match="no file at"):
        list(read_lines(tmp_path / "none.txt"))
    with pytest.raises(DataError, match="cannot read"):
        list(read_lines(tmp_path))


def test_find_file_prefers_the_plain_one(put, tmp_path: Path):
    packed = put("a.txt.gz", "x")
    assert find_file(tmp_path, "a.txt") == packed
    plain = put("a.txt", "x")
    assert find_file(tmp_path, "a.txt") == plain
    assert find_file(tmp_path, "b.txt") is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("-2", -2), (" +3 ", 3), ("1.0", 1), ("2.", 2), ("0", 0), ("007", 7)]
    + [(text, None) for text in ("1.5", "x", "", "1_0", "1e3", "٣", "nan", ".0", "--1")],
)
def test_whole_numbers(text: str, number: int | None):
    assert whole_number(text) == number


def test_short_quotes_on_one_line():
    assert short("a\nb") == r"'a\nb'"
    assert len(short("x" * 500, 60)) == 60
