"""Tasks that are made of a corpus."""

import random

import pytest

from bert_tf.experiments import own_tasks, plan
from bert_tf.finetuning import task_data
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry

WORDS = ["rain", "fell", "on", "the", "old", "town", "while", "a", "band", "played", "songs"]


def write_corpus(path, documents=20, sentences=60, words=WORDS, between=" "):
    rng = random.Random(0)
    lines = []
    for _ in range(documents):
        for _ in range(sentences):
            found = rng.choices(words, k=rng.randint(5, 12))
            found[len(found) // 2] += rng.choice([",", "", ";"])
            lines.append(between.join(found) + rng.choice([".", "?"]))
        lines.append("")
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own_tasks")
    corpus = write_corpus(folder / "corpus.txt")
    return folder, corpus, own_tasks.make(corpus, f"{folder}/out", True)


def test_no_text_is_in_both(made):
    folder, corpus, (rest, tasks) = made
    assert rest == f"{folder}/out/corpus.txt"
    before = [line for line in open(corpus).read().split("\n") if line]
    kept = [line for line in open(rest).read().split("\n") if line]
    assert 0.8 < len(kept) / len(before) < 0.95
    assert [task.partition("=")[0] for task in tasks] == [
        *("swapped_words:classification", "sentence_order:pair", "punctuation:tagging")
    ]
    seen = set(kept)
    common = [line for line in before if before.count(line) > 1]
    for split in ("train", "dev"):
        for line in open(f"{folder}/out/sentence_order/{split}.tsv").read().splitlines()[1:]:
            first, second, label = line.split("\t")
            assert (first not in seen or first in common) and label in ("in order", "turned")
            assert second not in seen or second in common


def test_of_much_text_they_take_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(own_tasks, "_MAX_SENTENCES", 60)
    corpus = write_corpus(tmp_path / "corpus.txt")
    rest, _ = own_tasks.make(corpus, f"{tmp_path}/out")
    before, kept = (len(open(path).read().split()) for path in (corpus, rest))
    assert 0.94 < kept / before < 0.99


def test_fine_tuning_reads_them(made, tmp_path):
    _, _, (_, tasks) = made
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    tokenizer = registry.load_tokenizer(str(vocabulary), {})
    labels = {
        "swapped_words": {"natural", "swapped"},
        "sentence_order": {"in order", "turned"},
        "punctuation": {"O", "S-,", "S-;", "S-.", "S-?"},
    }
    for task in map(plan.parse_task, tasks):
        request = TaskRequest(task.kind, task.name, task.data)
        settings = FineTuningSettings(tasks=(request,), init="")
        data = task_data.load(request, settings, tokenizer)
        assert set(data.task.labels) == labels[task.name]
        assert len(data.train.examples) > 2 * len(data.dev[0].examples) > 0
        assert not data.notes


def test_the_same_corpus_makes_the_same_tasks_once(made, tmp_path):
    folder, corpus, _ = made
    other = write_corpus(tmp_path / "other.txt", words=[word[::-1] for word in WORDS])
    own_tasks.make(other, str(tmp_path))
    own_tasks.make(corpus, str(tmp_path))  # what a failed start left is not kept
    paths = [path for path in (folder / "out").rglob("*") if path.is_file()]
    assert len(paths) == 7
    for path in paths:
        assert path.read_bytes() == (tmp_path / path.relative_to(folder / "out")).read_bytes()
    # What is there is not read again.
    assert own_tasks.make("no corpus", str(tmp_path), True)[0] == f"{tmp_path}/corpus.txt"


def test_words_without_blanks_are_characters(tmp_path):
    characters = list("今日本語文字中国韓京都学生雨")
    corpus = write_corpus(tmp_path / "zh.txt", words=characters, between="")
    own_tasks.make(corpus, f"{tmp_path}/out")
    rows = (tmp_path / "out/swapped_words/train.tsv").read_text().splitlines()[1:]
    assert {row.split("\t")[1] for row in rows} == {"natural", "swapped"}
    assert all(" " not in row.split("\t")[0] for row in rows)


def test_short_sentences_are_not_spelled():
    sentences = ["Jeffrey", "I see .", "It is raining again", "今日本語"]
    assert list(own_tasks._fitting([sentences])) == [
        (["It", "is", "raining", "again"], " "),
        (["今", "日", "本", "語"], ""),
    ]


def test_a_corpus_may_be_too_small(tmp_path):
    # Of 500 sentences one block would be taken, for training and dev alike.
    for sentences in (10, 500):
        corpus = write_corpus(tmp_path / "small.txt", documents=1, sentences=sentences)
        with pytest.raises(InputError, match=r"small.txt: is too small to make tasks of; name"):
            own_tasks.make(corpus, f"{tmp_path}/out")
