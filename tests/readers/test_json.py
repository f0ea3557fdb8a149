"""JSON from strangers: the fast path and the patient one agree, and nothing makes either crash."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn._limits import HEAD_BYTES, JSON_DEPTH
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.readers._json import (
    BadRecordError,
    Head,
    array_items,
    decode,
    json_lines,
    object_fields,
    open_buffer,
    read_head,
    records,
    sniff,
)
from sojourn.records import Skipped

BOM = b"\xef\xbb\xbf"
DEEP = b"[" * 100_000


class Form(msgspec.Struct):
    a: Any = None
    number: float | None = None
    name: str | None = None
    left: msgspec.Raw = msgspec.Raw(b"null")


def items(data: bytes) -> list[Any]:
    return list(array_items(data, source="x.json"))


def loaded(parts: list[Any]) -> list[Any]:
    return [part if isinstance(part, Skipped) else json.loads(bytes(part)) for part in parts]


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("head", "kind", "keys"),
    [
        (b'{"a": 1, "b": {"c": 2}}', "object", {"a", "b"}),
        (b'  [ {"a": [1, {"z": 2}], "b": "}"}, {"c": 1}]', "array", {"a", "b"}),
        (b'{"a": 1}\n{"b": 2}\n', "lines", {"a"}),
        (b'{"a": 1}\r\n{"b": 2}', "lines", {"a"}),
        (b'{"a": 1}\n', "object", {"a"}),
        (b'{"a": {"b": 1', "object", {"a"}),
        (b'{"a": "x\\"y", "b": "\\\\", "c": ["d"]', "object", {"a", "b", "c"}),
        (b'{"a" :1, "b', "object", {"a"}),
        (b"[[1, 2], 3]", "array", set()),
        (b"[1, 2]", "array", set()),
        (b"task_id,outcome\n", "", set()),
        (b"", "", set()),
        (b"\xff\xfe\x00", "", set()),
        (b'{"\xff": 1}', "object", {"\N{REPLACEMENT CHARACTER}"}),
        (DEEP, "array", set()),
        (b'{"a":' * 50_000, "object", {"a"}),
    ],
)
def test_a_head_shows_container_and_keys(head: bytes, kind: str, keys: set[str]) -> None:
    assert sniff(head) == Head(kind, frozenset(keys))


@given(st.binary(max_size=300))
def test_any_head_has_an_answer(head: bytes) -> None:
    assert sniff(head).kind in ("", "array", "object", "lines")


@pytest.mark.parametrize("unit", [b'\\"', b'"\\', b'"', b"\\", b'{"', b'"a"', b'["\\"'])
def test_quotes_and_backslashes_cost_linear_time(unit: bytes) -> None:
    """Quadratic work would take very long here: each start would look at all that follows."""
    data = b'["' + unit * 100_000
    assert sniff(data).kind == "array"
    assert all(isinstance(item, Skipped | memoryview | msgspec.Raw) for item in items(data))
    assert isinstance(object_fields(b'{"a' + unit * 100_000, source="x"), dict)
    with pytest.raises(BadRecordError):
        decode(data, Form)


def test_the_head_of_a_file_is_short_and_without_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(BOM + b"{" * HEAD_BYTES)
    assert read_head(path) == b"{" * (HEAD_BYTES - 3)


@pytest.mark.parametrize("content", [b"", b" \n\t", BOM, BOM + b"\n", b" " * 10_000])
def test_blank_files_are_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(EmptySourceError, match=r"x\.json is empty"):
        open_buffer(path)


@pytest.mark.parametrize("content", [b"[1]", BOM + b"[1]", b" " * 10_000 + b"[1]"])
def test_a_buffer_holds_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert loaded(items(bytes(open_buffer(path)))) == [1]
    assert decode(open_buffer(path), list[int]) == [1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"number": NaN}', None),
        (b'{"number": -Infinity}', None),
        (b'{"number": 1e999}', None),
        (b'{"number": 1.5}', 1.5),
        (b'{"number": "1.5"}', 1.5),
        (b'{"number": ' + b"9" * 400 + b"}", None),
        (b'{"number": ' + b"9" * 30 + b"}", 1e30),
        (b'{"number": ' + b"9" * 5000 + b"}", None),
        (BOM + b'{"number": 2}', 2.0),
    ],
)
def test_odd_numbers_are_made_harmless(text: bytes, expected: float | None) -> None:
    assert decode(text, Form).number == (
        None if expected is None else pytest.approx(expected, rel=1e-12)
    )


def test_odd_letters_are_made_harmless() -> None:
    assert decode(b'{"name": "a\xffb"}', Form).name == "a\N{REPLACEMENT CHARACTER}b"
    name = decode(b'{"name": "a\\ud800b", "a": [{"\\udfff": "\\udfff"}]}', Form).name
    assert name == "a?b"
    assert decode(b'{"name": "\\ud83d\\ude00"}', Form).name == "\N{GRINNING FACE}"


def test_an_undecoded_field_survives_the_patient_path() -> None:
    form = decode(b'{"left": {"x": [1, "\xff"]}, "number": NaN}', Form)
    assert json.loads(bytes(form.left)) == {"x": [1, "\N{REPLACEMENT CHARACTER}"]}
    assert bytes(decode(b'{"number": NaN}', Form).left) == b"null"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a": ' + DEEP, "nests deeper"),
        (b'{"a": ' + DEEP + b"]" * 100_000 + b"}", "nests deeper"),
        (b'{"a":' * 100_000, "nests deeper"),
        (b'{"number": NaN, "a": ' + b"[" * 500 + b"]" * 500 + b"}", "nests deeper"),
        (b'{"a": 1', "not valid JSON"),
        (b'{"a": 1} x', "not valid JSON"),
        (b"", "not valid JSON"),
        (b"\x00\xff", "not valid JSON"),
        (b"[1]", "array"),
        (b'{"number": "secret words"}', "number"),
        (b'{"number": ["secret words"], "a": NaN}', "number"),
    ],
)
def test_what_is_no_record_says_why_without_quoting_it(text: bytes, message: str) -> None:
    with pytest.raises(BadRecordError, match=message) as caught:
        decode(text, Form)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("depth", [JSON_DEPTH - 1, JSON_DEPTH])
def test_moderate_depth_is_read_by_both_paths(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    assert decode(b'{"a":' + nested[1:-1] + b"}", Form).a is not None
    assert decode(b'{"number": NaN, "a":' + nested[1:-1] + b"}", Form).a is not None


@given(plain)
def test_both_paths_read_the_same(document: Any) -> None:
    text = json.dumps({"a": document, "number": 1}, ensure_ascii=False).encode()
    odd = text.replace(b'"number": 1', b'"number": NaN')
    assert decode(odd, Form).a == decode(text, Form).a == document


@given(st.lists(plain, max_size=5), st.sampled_from([None, 0, 4]))
def test_items_of_an_array_are_those_of_the_document(
    document: list[Any], indent: int | None
) -> None:
    text = json.dumps(document, indent=indent).encode()
    assert loaded(items(text)) == document
    # With a number that the fast path refuses they are found by their brackets.
    odd = json.dumps([*document, math.nan], indent=indent).encode()
    assert loaded(items(odd)[:-1]) == document


@given(st.dictionaries(st.text("abcde", min_size=1), plain, max_size=5))
def test_fields_of_an_object_are_those_of_the_document(document: dict[str, Any]) -> None:
    text = json.dumps(document).encode()
    fields = object_fields(text, source="x")
    assert {key: json.loads(bytes(raw)) for key, raw in fields.items()} == document
    odd = json.dumps({**document, "z": math.nan}).encode()
    fields = object_fields(odd, source="x")
    assert bytes(fields.pop("z")).strip() == b"NaN"
    assert {key: json.loads(bytes(raw)) for key, raw in fields.items()} == document


@given(
    st.lists(st.dictionaries(st.text("ab"), plain, max_size=3), min_size=1, max_size=4), st.data()
)
def test_a_truncated_array_gives_what_is_whole_and_says_so(
    document: list[Any], data: st.DataObject
) -> None:
    text = json.dumps(document).encode()
    cut = data.draw(st.integers(1, len(text) - 1))
    *whole, last = loaded(items(text[:cut]))
    assert isinstance(last, Skipped)
    assert "truncated" in last.reason
    assert whole == document[: len(whole)]


@pytest.mark.parametrize(
    ("text", "n_items", "reason"),
    [
        (b"[1, 2] x", 2, "after the end"),
        (b"[1, 2", 1, "truncated"),
        (b"[1, 2,", 2, "not closed"),
        (b"[", 0, "not closed"),
        (b"[NaN, 1] ", 2, None),
        (b"[ ]x", 0, "after the end"),
    ],
)
def test_damaged_arrays(text: bytes, n_items: int, reason: str | None) -> None:
    found = items(text)
    notes = [item for item in found if isinstance(item, Skipped)]
    assert len(found) - len(notes) == n_items
    assert [reason in note.reason for note in notes] == ([] if reason is None else [True])


def test_another_container_is_refused() -> None:
    for text in (b'{"a": 1}', b"hello", b"", b"1"):
        with pytest.raises(ReaderError, match="expected a JSON array"):
            items(text)
    for text in (b"[1]", b"hello", b"", b"1"):
        with pytest.raises(ReaderError, match="expected a JSON object"):
            object_fields(text, source="x")


def test_a_deep_item_costs_itself_only() -> None:
    found = items(b"[1, " + DEEP + b"]" * 100_000 + b", 2]")
    assert [bytes(found[0]).strip(), bytes(found[2]).strip()] == [b"1", b"2"]
    with pytest.raises(BadRecordError, match="nests deeper"):
        decode(found[1], Form)
    fields = object_fields(b'{"a": ' + DEEP + b"]" * 100_000 + b', "b": 2}', source="x")
    assert bytes(fields["b"]).strip() == b"2"


def test_a_truncated_object_keeps_its_last_field_as_it_is() -> None:
    fields = object_fields(b'{"a": 1, "b": [1, 2', source="x")
    assert bytes(fields["a"]) == b" 1"
    assert bytes(fields["b"]) == b" [1, 2"


@given(st.binary(max_size=60))
def test_any_bytes_end_in_an_answer(noise: bytes) -> None:
    for data in (noise, b"[" + noise, b'{"a":' + noise):
        for read in (lambda d: items(d), lambda d: object_fields(d, source="x")):
            try:
                read(data)
            except ReaderError as error:
                assert "expected" in str(error)  # noqa: PT017 (the answer may be either)
        try:
            decode(data, Form)
        except BadRecordError as error:
            assert str(error)  # noqa: PT017


def test_lines_are_numbered_as_an_editor_does(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(BOM + b'{"a": 1}\n\n  \r\n{"a": 2}\r\n{"a": 3}')
    assert [(line.number, line.text.strip()) for line in json_lines(path)] == [
        (1, b'{"a": 1}'),
        (4, b'{"a": 2}'),
        (5, b'{"a": 3}'),
    ]


def test_a_bad_line_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"number": 1}\nnoise\n{"number": -1}\n' + DEEP + b'\n{"number": NaN}\n{"nu')

    def build(form: Form) -> float:
        if form.number is None:
            return 0.0
        if form.number < 0:
            raise ValueError("negative")
        return form.number

    found = list(records(json_lines(path), Form, source="x.jsonl", build=build))
    assert [item for item in found if not isinstance(item, Skipped)] == [1.0, 0.0]
    notes = [item for item in found if isinstance(item, Skipped)]
    assert [note.source for note in notes] == [f"x.jsonl, line {n}" for n in (2, 3, 4, 6)]
    assert notes[1].reason == "negative"
    assert notes[3].reason.startswith("the last line is incomplete")


def test_a_line_without_an_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.readers._json.LINE_BYTES", 100)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n" + b"x" * 1000)
    with pytest.raises(ReaderError, match="line 2 is longer than 100"):
        list(json_lines(path))
