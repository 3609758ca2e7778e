"""`--deduplicate`: a repeated document changes nothing but the counts."""

import pytest

from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.pretraining import example_writer, units
from tests.conftest import make_documents, write_documents
from tests.pipelines.pretraining.written import HERE, cut_finely, digests, request


@pytest.fixture(autouse=True)
def many_units(monkeypatch):
    cut_finely(monkeypatch, unit_bytes=8000)


@pytest.fixture
def write(tmp_path, vocab_path):
    """Writes the examples of documents; returns the manifest, and the checksum of each file."""

    def written(name, documents, **changes):
        corpus = write_documents(tmp_path / f"{name}.txt", documents)
        changes = {"dupe_factor": 1, "deduplicate": True, **changes}
        wanted = request(corpus, vocab_path, tmp_path / name, **changes)
        manifest = example_writer.write(wanted, HERE)
        return manifest, digests(tmp_path / name, "*.tfrecord")

    return written


def _repeated(documents):
    """The documents, a third of them again further on, and one often, also in a row."""
    return [*documents[:1], *documents, *documents[::3], *documents[:1] * 50]


def test_the_first_place_of_a_document_counts(write):
    """In the unit of a repeated document, and in others."""
    documents = make_documents(90)
    distinct, _ = write("distinct", documents)
    repeated, found = write("repeated", _repeated(documents))
    assert len(found) > 4
    text = repeated["text"]
    assert text["duplicate_documents"] == 30 + 50 + 1
    assert "duplicate_documents" not in distinct["text"]
    for name in ("documents", "sentences", "tokens", "characters", "one_sentence_documents"):
        assert text[name] == distinct["text"][name]
    everything, _ = write("all", _repeated(documents), deduplicate=False)
    assert everything["text"]["documents"] == 90 + 81
    assert everything["text"]["characters"] == text["characters"] + text["duplicate_characters"]


def test_in_one_unit_the_examples_are_those_of_the_distinct_documents(monkeypatch, write):
    monkeypatch.setattr(units, "_UNIT_BYTES", (1 << 20, 1 << 20))
    documents = make_documents(90)
    upper = [[sentence.upper() for sentence in documents[7]]]  # the vocabulary ignores case
    _, expected = write("distinct", documents)
    repeated, found = write("repeated", documents + documents[::3] + upper)
    assert found == expected and repeated["text"]["duplicate_documents"] == 31


def test_copies_are_on_one_side(monkeypatch, write):
    """Without the flag, too: a document is held out by the hash of its text."""
    monkeypatch.setattr(units, "_UNIT_BYTES", (1 << 20, 1 << 20))
    documents = make_documents(90)
    once, twice = (
        write(name, found, deduplicate=False)[0]["text"]
        for name, found in (("once", documents), ("twice", documents * 2))
    )
    assert twice["documents"] == 180
    assert 2 < 2 * once["held_out_documents"] == twice["held_out_documents"]


@pytest.mark.more_cases
@pytest.mark.parametrize("fraction", [0.3, 0.02])
@pytest.mark.parametrize(
    ("unit_bytes", "part_characters"), [(6000, 1 << 26), (1500, 1 << 26), (1 << 20, 3000)]
)
def test_copies_of_few_long_documents_are_on_one_side(
    monkeypatch, write, fraction, unit_bytes, part_characters
):
    """Each unit or part has few documents, and copies are in others."""
    monkeypatch.setattr(units, "_UNIT_BYTES", (unit_bytes, unit_bytes))
    monkeypatch.setattr(units, "_PART_CHARACTERS", part_characters)
    monkeypatch.setattr(units, "_WAITING", 2)
    keys, write_shard = {}, units._write_shard

    def recorded(path, documents, *args):
        keys[path.rpartition("/")[-1]] = set(documents.document_keys.tolist())
        return write_shard(path, documents, *args)

    monkeypatch.setattr(units, "_write_shard", recorded)
    documents = [document * 12 for document in make_documents(20)]
    for seed in range(4):
        manifest, _ = write(
            str(seed), documents + documents[::-1], deduplicate=False, seed=seed,
            held_out_fraction=fraction, objective="mlm",
        )  # fmt: skip
        train, held_out = (
            set().union(*(keys[shard["file"]] for shard in manifest[part]["shards"]))
            for part in ("train", "held_out")
        )
        assert train and held_out and not train & held_out
        assert manifest["text"]["held_out_documents"] >= 2


def test_documents_that_differ_in_one_sentence_or_its_end_are_kept(write):
    documents = make_documents(40)
    longer = [[*document, "The token reads."] for document in documents]
    joined = [[" ".join(document)] for document in documents]
    manifest, _ = write("near", documents + longer + joined)
    assert manifest["text"]["documents"] == 120


@pytest.mark.more
def test_long_documents_are_compared_in_all_their_sections(monkeypatch, write):
    """One document repeats a section of its own, and one has the end of another."""
    monkeypatch.setattr(reader, "SECTION_CHARACTERS", 60)
    documents = [document * 3 for document in make_documents(60)]
    ends = [[f"It begins with {i}, and {i} tokens.", *d] for i, d in enumerate(documents[:5])]
    distinct, _ = write("distinct", documents + ends)
    assert "duplicate_characters" not in distinct["text"]
    repeated, _ = write("repeated", _repeated(documents + ends))
    assert repeated["text"]["tokens"] == distinct["text"]["tokens"]


def test_a_corpus_of_one_repeated_document_is_one_document(write):
    with pytest.raises(InputError, match="the corpus is one document"):
        write("one", make_documents(1) * 50)


def test_pages_of_one_sentence_count_once_in_warnings(write, caplog):
    manifest, _ = write("pages", [*make_documents(60), *[["The token is not found."]] * 200])
    assert manifest["text"]["one_sentence_documents"] == 1
    assert not [each for each in caplog.messages if "have one sentence" in each]


def test_a_corpus_without_text_is_reported(write):
    with pytest.raises(InputError, match="the corpus has no text"):
        write("empty", [["\u200b"]])


def test_few_held_out_documents_are_told(monkeypatch, write, caplog):
    """Where units have few documents, most that are held out are alone."""
    documents = make_documents(240)
    monkeypatch.setattr(units, "_UNIT_BYTES", (1 << 20, 1 << 20))
    text = write("few units", documents, held_out_fraction=0.05)[0]["text"]
    assert text["held_out_documents"] > 6 and "are held out" not in caplog.text
    monkeypatch.setattr(units, "_UNIT_BYTES", (5000, 5000))
    text = write("many units", documents, held_out_fraction=0.05)[0]["text"]
    assert 0 < text["held_out_documents"] < 6
    told = f"{text['held_out_documents']} of 240 documents are held out, fewer than half of"
    assert told in caplog.text
