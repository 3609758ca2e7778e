"""Tables that are written come back as they were, whatever is in their cells."""

import csv
import gzip
import io
import json

from hypothesis import assume, given
from hypothesis import strategies as st

from pipelines.labelled import table_rows, tables, user_files
from pipelines.labelled.source import Source
from tests import strategies

_CELL = st.text(strategies.TRICKY | st.sampled_from('abc" ,\n\r\t;'), max_size=8)
_NAMES = st.lists(
    st.text(st.sampled_from("abc_é1"), min_size=1, max_size=6), min_size=1, max_size=4, unique=True
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | _CELL,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_CELL, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def _tables(draw, cells):
    names = draw(_NAMES)
    row = st.lists(cells, min_size=len(names), max_size=len(names))
    return names, draw(st.lists(row, min_size=1, max_size=6))


def _write(tmp_path_factory, name, text, packed):
    path = tmp_path_factory.mktemp("tables") / (name + ".gz" * packed)
    data = text.encode()
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    return str(path)


@given(table=_tables(_CELL), end=st.sampled_from(["\n", "\r\n"]), packed=st.booleans())
def test_csv(tmp_path_factory, table, end, packed):
    names, rows = table
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator=end)
    writer.writerows([names, *rows])
    path = _write(tmp_path_factory, "t.csv", text.getvalue(), packed)
    found = list(tables.read_rows(Source(path, header=True, has_quotes=False)))
    assert [list(row.cells) for row in found] == rows
    assert [dict(row.values) for row in found] == [dict(zip(names, r, strict=True)) for r in rows]
    assert len({row.place for row in found}) == len(found)


@given(
    table=_tables(_CELL.map(lambda cell: "".join(c for c in cell if c not in "\t\n\r"))),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
)
def test_tsv(tmp_path_factory, table, end, mark):
    """As they are: quotes are letters."""
    names, rows = table
    lines = ["\t".join(row) for row in (names, *rows)]
    text = "\ufeff" * mark + "".join(f"{line}{end}" for line in lines)
    path = _write(tmp_path_factory, "t.tsv", text, False)
    filled = [i for i, line in enumerate(lines) if line.strip(" ")]
    # Blank lines are rows of one column, but for those at the end.
    kept = range(1, filled[-1] + 1) if len(names) == 1 else [i for i in filled if i]
    if not kept:
        return
    found = list(tables.read_rows(Source(path, header=True, has_quotes=False)))
    blank = [""]
    assert [list(row.cells) for row in found] == [
        rows[i - 1] if lines[i].strip(" ") else blank for i in kept
    ]
    assert [row.place for row in found] == [f"{path}: line {i + 1}" for i in kept]


@given(
    records=st.lists(st.dictionaries(_CELL, _JSON, max_size=3), min_size=1, max_size=6),
    form=st.sampled_from(["lines", "blank lines", "list"]),
    ascii_only=st.booleans(),
)
def test_json_lines(tmp_path_factory, records, form, ascii_only):
    # One object of nothing but lists or objects is taken for a file that holds rows.
    nested = all(isinstance(value, dict | list) for value in records[0].values())
    assume(form == "list" or len(records) > 1 or not nested)
    each = [json.dumps(record, ensure_ascii=ascii_only) for record in records]
    gap = {"lines": "\n", "blank lines": "\r\n\n \n", "list": ",\n"}[form]
    text = f"[{gap.join(each)}]" if form == "list" else gap.join(each)
    rows = list(
        tables.read_rows(
            Source(_write(tmp_path_factory, "t.jsonl", text, False), header=True, has_quotes=False)
        )
    )
    assert [row.values for row in rows] == records


@given(
    examples=st.lists(st.tuples(_CELL, _CELL, strategies.labels()), min_size=1, max_size=6),
    pair=st.booleans(),
    ending=st.sampled_from(["csv", "jsonl"]),
)
def test_examples_of_texts(tmp_path_factory, examples, pair, ending):
    names = ("text_a", "text_b", "label") if pair else ("text", "label")
    rows = [example if pair else example[::2] for example in examples]
    text = io.StringIO()
    if ending == "csv":
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    else:
        text.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    path = _write(tmp_path_factory, f"t.{ending}", text.getvalue(), False)
    found = list(user_files.read_texts(Source(path), None, labelled=True))
    assert [(e.text_a, e.text_b, e.label) for e in found] == [
        (a, b if pair else None, label.strip()) for a, b, label in examples
    ]
    assert [e.key for e in found] == list(map(str, range(len(examples))))


@given(
    st.lists(st.text(st.sampled_from("ab \u00a0é#"), max_size=4), max_size=6),
    st.text(st.sampled_from("0123456789٣²+- "), max_size=20),
)
def test_ends_and_numbers(cells, digits):
    kept = table_rows.without_empty_end(cells)
    assert list(kept) + [""] * (len(cells) - len(kept)) == cells and (not kept or kept[-1])
    ascii_only = digits.isascii() and digits.isdigit() and len(digits) <= 18
    assert table_rows.whole_number(digits) == (int(digits) if ascii_only else None)
