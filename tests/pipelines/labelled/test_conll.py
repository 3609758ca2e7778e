"""Readers of CoNLL's columns."""

import pytest

from bert_tf import tasks
from pipelines.common.errors import InputError
from pipelines.labelled import conll, splits, text_files, user_files
from pipelines.labelled.source import Source
from tests.pipelines.labelled.labelled_files import write


def read(path, labelled=True, columns=None):
    return list(conll.read(Source(path, columns or {}), labelled))


def test_conll_columns_and_documents(tmp_path):
    text = "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP B-PER\n"
    found = read(write(tmp_path / "train.txt", text + "\n-DOCSTART- -X- O O\n\nLondon NNP O B-LOC"))
    assert [(e.words, e.tags, e.document) for e in found] == [
        (("EU", "rejects"), ("B-ORG", "O"), 1),
        (("Peter",), ("B-PER",), 1),
        (("London",), ("B-LOC",), 2),
    ]


@pytest.mark.parametrize(
    ("text", "labelled", "message"),
    [
        ("EU O\nrejects\n", True, "line 2: has 1 column, but the first word has 2"),
        ("In O\nNew York B-LOC\n", True, "line 2: has 3 columns, but .* name the columns"),
        ("a NN O\n\nb O\n", None, "line 3: has 2 columns, but the first word has 3"),
        ("word tag\nIn O\nNew York B-LOC\n", True, "line 3: has 3 columns, but the first word"),
        ("Ada met Babbage.\nIt rained.\n\n", False, "may be texts, .* a column text; of words"),
        ("Ada met.\n\nIt rained again.\n", False, "line 3: has 3 .* Texts are read from a .csv"),
    ],
)
def test_lines_of_other_columns_are_not_read(tmp_path, text, labelled, message):
    path = write(tmp_path / "a.txt", text)
    with pytest.raises(InputError, match=message):
        read(path, labelled)
    assert read(path, False, {"words": "1"})


def test_tags_of_words_to_predict_need_no_blank_line(tmp_path):
    (example,) = read(write(tmp_path / "a.txt", "Ada B-PER\nmet O\n"), labelled=False)
    assert (example.words, example.tags) == (("Ada", "met"), None)


def test_only_spaces_and_tabs_separate_columns(tmp_path):
    text = "10\u00a0000  NN O\r\n \nNew York\tNNP \t B-LOC\t\n"
    found = read(write(tmp_path / "train.txt", text))
    assert [(e.words, e.tags) for e in found] == [
        (("10\u00a0000",), ("O",)), (("New York",), ("B-LOC",)),
    ]  # fmt: skip
    with pytest.raises(InputError, match="line 1: has too few columns"):
        read(write(tmp_path / "bad.txt", "10\u00a0000\n"))
    table = write(tmp_path / "w.tsv", "words\ttags\n10\u00a0000  men\tO O\n")
    assert next(user_files.read_words(Source(table), True)).words == ("10\u00a0000", "men")


def test_conllu_takes_forms_and_upos(tmp_path):
    def line(index, form, upos):
        return "\t".join([index, form, "_", upos, *["_"] * 6])

    lines = [line("1-2", "vámonos", "_"), line("1", "vamos", "VERB"), line("2", "nos", "PRON"),
             line("2.1", "x", "X"), "", "# newdoc", line("1", "Sí", "INTJ"), ""]  # fmt: skip
    found = read(write(tmp_path / "train.conllu", "\n".join(lines)))
    assert [(e.words, e.tags, e.document) for e in found] == [
        (("vamos", "nos"), ("VERB", "PRON"), 0), (("Sí",), ("INTJ",), 1),
    ]  # fmt: skip


def test_letters_as_words_may_be_spaces(tmp_path):
    found = read(write(tmp_path / "train.tsv", "경\tB-OG\n찰\tI-OG\n \tO\n은\tO\n\n"))
    assert [(e.words, e.tags) for e in found] == [
        (("경", "찰", " ", "은"), ("B-OG", "I-OG", "O", "O"))
    ]


def test_comments_are_no_words(tmp_path):
    tabs = "## train_1_wiki\t경찰은 갔다.\n경\tB-OG\n찰\tI-OG\n\n## train_2_wiki\t은.\n은\tO\n"
    spaces = "# sent_id = 1\n# text = Go #1\nGo O\n# O\n1 O\n\n# O\n2 O\n"
    assert [e.words for e in read(write(tmp_path / "a.txt", tabs))] == [("경", "찰"), ("은",)]
    assert [e.words for e in read(write(tmp_path / "b.txt", spaces))] == [
        ("Go", "#", "1"), ("#", "2"),
    ]  # fmt: skip


def test_sentences_of_words_that_look_like_comments(tmp_path):
    """They have the columns that words have; such as those of posts, which are tags only."""
    posts = "# a file of posts\n\n#nlp\tB\n#tf\tO\n\n## id 7\nGo\tO\n#1\tO\n\n#end\tO\n"
    assert [e.words for e in read(write(tmp_path / "a.txt", posts))] == [
        ("#nlp", "#tf"), ("Go", "#1"), ("#end",),
    ]  # fmt: skip
    alone = read(write(tmp_path / "b.txt", "#a O\n#b B\n\n# c d e\n#f O\n"))
    assert [e.words for e in alone] == [("#a", "#b"), ("#f",)]
    (example,) = read(write(tmp_path / "c.txt", "# a comment\n\tO\nGo O\n"), labelled=False)
    assert example.words == ("", "Go")


GERMEVAL = (
    "#\thttp://www.heise.de/tp/1.html\t[2010-07-04]\t\n1\tGleich\tO\tO\n2\tIG\tB-ORG\tB-ORGpart\n"
    "3\tFarben\tI-ORG\tO\n4\tin\tO\tO\n5\tBasel\tB-LOC\tO\n\n#\thttp://b.de\t[2009-10-01]\t\n"
    "1\t#\tO\tO\n2\t1951\tO\tO\n"
)


def test_the_outer_tags_of_germeval_are_read_and_reported(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    path = write(tmp_path / "NER-de-train.tsv", GERMEVAL)
    first, second = text_files.read_words(Source(path), True)
    assert first.words == ("Gleich", "IG", "Farben", "in", "Basel")
    assert first.tags == ("O", "B-ORG", "I-ORG", "O", "B-LOC")
    assert (second.words, second.tags) == (("#", "1951"), ("O", "O"))
    assert "words = column 2 (column 1 counts them), tags = column 3 (nested or oth" in caplog.text
    nested = next(text_files.read_words(Source(path, {"tags": "4"}), True))
    assert nested.tags == ("O", "B-ORGpart", "O", "O", "O")
    for split in ("dev", "test"):
        write(tmp_path / f"NER-de-{split}.tsv", GERMEVAL)
    found = splits.find(str(tmp_path), tasks.make("ner").source.splits)
    assert found == {s: f"{tmp_path}/NER-de-{s}.tsv" for s in ("train", "dev", "test")}
    bad = write(tmp_path / "bad.tsv", GERMEVAL.replace("2\tIG\tB-ORG\tB-ORGpart", "2\tIG"))
    with pytest.raises(InputError, match=r"bad\.tsv: line 3: has too few columns"):
        list(text_files.read_words(Source(bad, {"words": "2", "tags": "3"}), True))


def test_the_two_columns_of_wnut_are_words_and_tags(tmp_path):
    text = "@user\tO\nESB\tB-location\n:\tO\n#\tO\n\t\n\nThat\tO\n´\tO\n😂\tO\n5\tI-product\n\n"
    found = read(write(tmp_path / "wnut17train.conll", text))
    assert [e.words for e in found] == [("@user", "ESB", ":", "#"), ("That", "´", "😂", "5")]
    assert found[0].tags == ("O", "B-location", "O", "O")


def test_columns_by_number(tmp_path):
    path = write(tmp_path / "train.txt", "1 EU NNP B-ORG\n2 rejects VBZ O\n")
    (example,) = read(path, columns={"words": "2", "tags": "3"})
    assert (example.words, example.tags) == (("EU", "rejects"), ("NNP", "VBZ"))
    with pytest.raises(InputError, match=r"line 1: has too few columns: 4, not 9"):
        read(path, columns={"tags": "9"})
    for columns in ({"tags": "upos"}, {"text": "1"}):
        with pytest.raises(InputError, match="named by number"):
            read(path, columns=columns)


@pytest.mark.parametrize("mark", ["\t", " "])
@pytest.mark.parametrize(
    "comment", ["# newdoc id = x", "# sent_id = 7", "# text = Es regnet", "#id=3", "# newpar"]
)
def test_comments_are_never_words_whatever_their_number_of_parts(tmp_path, mark, comment):
    for width in range(2, 7):
        rows = [mark.join([word, *"X" * (width - 2), "B-X"]) for word in ("Es", "#", "regnet")]
        text = "\n".join([comment, rows[0], rows[2], "", comment, rows[1], rows[0], "", ""])
        found = read(write(tmp_path / "train.conll", text))
        assert [e.words for e in found] == [("Es", "regnet"), ("#", "Es")]
