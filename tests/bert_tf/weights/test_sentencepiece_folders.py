"""XLM-R's and CamemBERT's tokenizers in Hugging Face folders, against the library's.

Folders have sentencepiece.bpe.model, tokenizer.json, or both.
"""

import dataclasses
import functools
import itertools
import json
import random
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.export import saved_model, sources
from bert_tf.models.config import BertConfig
from bert_tf.serving.engines import SavedModelSession
from bert_tf.serving.predictor import Predictor
from bert_tf.weights import bundle
from bert_tf.weights.formats import Format
from bert_tf.weights.huggingface import tokenizers as folders
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry, sentencepiece_numbering
from pipelines.tokenizers.sentencepiece_vocabulary import SPACE, SentencePieceVocabulary
from tests.real_data import data_of
from tests.tokenizers import FAIRSEQ, SENTENCES, fairseq_model, library_fairseq

from .test_weights import assert_same_weights, make_bundle

FILE = "sentencepiece.bpe.model"
TEXTS = [
    *SENTENCES[:13], "", " ", "  two  spaces\tand\nlines ", "a\u00a0b\u3000c\u2028d", "12,345,678,9 1987,",
    "\u200bzero\u200dwidth\ufeff", "Hello\u0007 world\u0007", "½ ﬁne ① ㎏ ﷺ", "HELLO\u00adworld", "日本語 한국어中文",
    "\U0001f600 \U0001f468\u200d\U0001f469 x", "▁Hello ▁ world", "¨ x", "\ufffd world", "``quoted'' \"text\"",
]  # fmt: skip
_model = functools.cache(fairseq_model)


def places(library, text):
    """The library's ids, and its offsets in bytes."""
    found = library.encode(text, add_special_tokens=False)
    in_bytes = [len(text[:place].encode()) for pair in found.offsets for place in pair]
    return found.ids, in_bytes[::2], in_bytes[1::2]


def differences(tokenizer, library, texts):
    """The texts of which an id or an offset is not the library's."""
    ids, starts, ends = (
        each.to_list() for each in tokenizer.tokenize_with_offsets(tf.constant(texts))
    )
    assert ids == tokenizer.tokenize(tf.constant(texts)).to_list()
    plain = map(tokenizer.plain_ids, texts)
    assert all(found in (None, row) for found, row in zip(plain, ids, strict=True))
    rows = zip(texts, ids, starts, ends, strict=True)
    return [text for text, *found in rows if tuple(found) != places(library, text)]


def write_files(folder, model, name, both=True):
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_bytes(model)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    if both:
        library_fairseq(model, FAIRSEQ[name]).save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("name", FAIRSEQ)
@pytest.mark.parametrize("missing", ["tokenizer.json", FILE, None])
def test_ids_and_offsets_are_the_librarys(name, missing, tmp_path):
    library = library_fairseq(_model(), FAIRSEQ[name])
    write_files(tmp_path, _model(), name)
    if missing:
        (tmp_path / missing).unlink()
    config = BertConfig(vocab_size=library.get_vocab_size())
    vocabulary, settings = folders.read("byte_bpe", str(tmp_path), config)
    assert len(vocabulary) == config.vocab_size
    assert vocabulary.resolve(settings or {})["lower_case"] is False
    tokenizer = registry.make(vocabulary, settings)
    assert (tokenizer.pad_id, tokenizer.unknown_id) == (1, 3)
    assert tokenizer.mask_id == len(vocabulary) - 1
    assert differences(tokenizer, library, TEXTS) == []
    pairs = tokenizer(["Hello", "déjà"], ["world", "두"])
    expected = library.encode_batch([("Hello", "world"), ("déjà", "두")])
    rows = zip(pairs["input_word_ids"].numpy().tolist(), expected, strict=True)
    assert all(row[: len(each.ids)] == each.ids for row, each in rows)
    assert not pairs["input_type_ids"].numpy().any()
    assert tokenizer.decode([library.encode("Hello, world! 한국어").ids]) == [
        "Hello, world! 한국어"
    ]


def test_files_that_disagree_are_refused(tmp_path):
    write_files(tmp_path, _model(), "XLMRobertaTokenizer")
    config = BertConfig(vocab_size=1000)
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    for change in (0, 1):
        vocab = [list(each) for each in values["model"]["vocab"]]
        vocab[9][change] = ["other", -1.5][change]
        changed = values | {"model": values["model"] | {"vocab": vocab}}
        (tmp_path / "tokenizer.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=r"tokenizer\.json has another vocabulary than"):
            folders.read("byte_bpe", str(tmp_path), config)
    library_fairseq(_model(), FAIRSEQ["CamembertTokenizer"]).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="has another vocabulary"):
        folders.read("byte_bpe", str(tmp_path), config)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "MBartTokenizer"}')
    with pytest.raises(InputError, match="tokenizer_class is MBartTokenizer, not Albert"):
        folders.read("byte_bpe", str(tmp_path), config)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / FILE).write_bytes(_model()[:100])
    with pytest.raises(InputError, match="is not a SentencePiece model"):
        folders.read("byte_bpe", str(tmp_path), config)
    with pytest.raises(InputError, match=r"first pieces are <pad>, .*not a model of XLM-R"):
        pieces = SentencePieceVocabulary.learn({b"hello": 3, b"world": 2}, 40)
        sentencepiece_numbering.of_fairseq(pieces.model, False, "a model")


@pytest.mark.parametrize(
    ("family", "name"),
    [("xlm-roberta", "XLMRobertaTokenizer"), ("camembert", "CamembertTokenizer"),
     ("bert", "XLMRobertaTokenizer")],
)  # fmt: skip
def test_models_are_written_as_they_were_read(family, name, tmp_path):
    """On bodies of RoBERTa, and of BERT (multilingual-e5-small)."""
    model = sentencepiece_numbering.of_fairseq(_model(), name.startswith("C"), "")
    vocabulary = SentencePieceVocabulary(model)
    prefix = "" if family == "bert" else f"{family}-"
    config = BertConfig.named(f"{prefix}debug", vocab_size=len(vocabulary), hidden_size=8,
                              num_attention_heads=2, intermediate_size=8)  # fmt: skip
    made = make_bundle(config, drop=(bundle.NEXT_SENTENCE, bundle.POOLER))
    made = dataclasses.replace(made, vocabulary=vocabulary)
    weights.write(made, f"{tmp_path}/hf", Format.HUGGINGFACE)
    assert (tmp_path / "hf" / FILE).read_bytes() == _model()
    stated = json.loads((tmp_path / "hf/tokenizer_config.json").read_text())
    assert stated["tokenizer_class"] == name and stated["mask_token"]["lstrip"]
    found = weights.read(f"{tmp_path}/hf")
    assert (found.config, found.vocabulary) == (config, vocabulary)
    assert_same_weights(found.weights, made.weights)
    weights.write(found, f"{tmp_path}/ours", Format.BERT_TF)
    again = weights.read(f"{tmp_path}/ours")
    assert again.vocabulary == vocabulary
    assert again.tokenizer().tokenize(["Hello"]).to_list() == [
        library_fairseq(_model(), FAIRSEQ[name]).encode("Hello", add_special_tokens=False).ids
    ]


def check_answers_are_parts(texts, made, folder):
    """Exports a model of the task qa; the answers from texts, UTF-8 or not, are parts of them."""
    described = dataclasses.replace(tasks.make("squad1", "qa"), max_seq_length=64, stride=20)
    made = dataclasses.replace(made, tasks=(described.describe(),))
    weights.write(made, f"{folder}/model", Format.BERT_TF)
    saved_model.export(sources.find([f"qa={folder}/model"]), f"{folder}/export")
    texts = np.array([text for text in texts if text.strip()], object)
    inputs = {"question": np.array([b"Who?"] * len(texts), object), "context": texts}
    found = SavedModelSession(f"{folder}/export/1").run("qa", inputs)
    answers = Predictor(f"{folder}/export/1")("qa", **inputs)["answer"]
    assert list(found["answer"]) == list(answers)
    for text, *place, answer in zip(
        texts, found["n_best_start"], found["n_best_end"], found["n_best_answer"], strict=True
    ):
        rows = zip(*place, answer, strict=True)
        assert all(text[start:end] == part for start, end, part in rows if part)
        assert b"\xff" in text or all(part.decode() for part in answer if part)


@pytest.mark.more
def test_exports_take_raw_texts(tmp_path):
    """The graph, and what runs without it, give the pieces of a text their places in it."""
    model = sentencepiece_numbering.of_fairseq(_model(), False, "")
    vocabulary = SentencePieceVocabulary(model)
    config = BertConfig.named("xlm-roberta-debug", vocab_size=len(vocabulary), hidden_size=8,
                              num_attention_heads=2, intermediate_size=8)  # fmt: skip
    made = make_bundle(config, shape="span", units=2, drop=(bundle.POOLER,), name="qa")
    made = dataclasses.replace(made, vocabulary=vocabulary)
    check_answers_are_parts([text.encode() for text in TEXTS], made, tmp_path)


def test_text_cannot_be_lower_cased():
    vocabulary = SentencePieceVocabulary(sentencepiece_numbering.of_fairseq(_model(), False, ""))
    with pytest.raises(InputError, match="changes no text before SentencePiece"):
        vocabulary.check_settings({"lower_case": True}, "a model")


def best_pieces(text, scores):
    """Viterbi's algorithm in float64; of equal segmentations, that whose last piece begins first."""
    least = min(scores.values()) - 10  # of a character without a piece
    longest = max(map(len, scores))
    best = [(0.0, 0)]
    for end in range(1, len(text) + 1):
        found = None
        for start in range(max(0, end - longest), end):
            piece = text[start:end]
            score = scores.get(piece, least if len(piece) == 1 else None)
            if score is not None and best[start] is not None:
                total = best[start][0] + score
                if found is None or total > found[0]:
                    found = (total, start)
        best.append(found)
    pieces, end = [], len(text)
    while end:
        start = best[end][1]
        pieces.append(text[start:end])
        end = start
    return pieces[::-1]


@pytest.mark.slow
def test_a_vocabulary_of_many_languages_on_every_code_point_and_real_text():
    """Those that differ are ties, or have marks in other places than NFC has.

    Of equally probable segmentations ("..." and ".") the library takes one by a simple rule.
    """
    lines = []
    for path in sorted(data_of("corpora/multi_xquad_contexts").glob("*.txt")):
        lines += path.read_text(encoding="utf-8").split("\n")
    model = fairseq_model(12_000, [line for line in lines if line])
    library = library_fairseq(model)
    vocabulary = SentencePieceVocabulary(sentencepiece_numbering.of_fairseq(model, False, ""))
    tokenizer, rng = registry.make(vocabulary), random.Random(0)
    for path in sorted(data_of("corpora").rglob("*.txt")):
        lines += path.read_text(encoding="utf-8").split("\n")
    texts = [line for line in rng.sample(lines, 40_000) if "<unk>" not in line]
    found = differences(tokenizer, library, texts)
    scores = {piece: vocabulary.processor.get_score(index)
              for index, piece in enumerate(vocabulary.tokens) if index > 3}  # fmt: skip
    ties = 0
    for text in found:
        words = re.findall(f"{SPACE}[^{SPACE}]*", vocabulary.processor.normalize(text))
        pieces = [piece for word in words for piece in best_pieces(word, scores)]
        ids = [vocabulary.tokens.index(piece) if piece in scores else 3 for piece in pieces]
        runs = itertools.groupby(ids)
        fused = [number for number, run in runs for _ in (run if number != 3 else [0])]
        ties += fused == library.encode(text, add_special_tokens=False).ids
    print(f"{len(texts):,} lines: {len(found)} differ, {ties} of them as documented")
    assert len(found) - ties < 5 and len(found) < 600
    points = [chr(c) for c in range(1, sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    found = [differences(tokenizer, library, [f"ab{c}cd {c}" for c in points[first : first + 50_000]])
             for first in range(0, len(points), 50_000)]  # fmt: skip
    assert sum(map(len, found)) < 10
    alphabet = [*points[:0x3000], *map(chr, range(0x1F300, 0x1F700)), *"  ,,.119"]
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(1, 60))) for _ in range(20_000)]
    assert len(differences(tokenizer, library, texts)) < 1000
