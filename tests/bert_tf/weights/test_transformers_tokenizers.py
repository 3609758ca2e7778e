"""Tokenizers of folders that we write, as transformers reads them; run by PEER_PYTHON.

KoBERT is missing: its tokenizer is code of its repository (`test_korean_folders` has a copy of it).
"""

import json

import pytest

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.weights import bundle
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.formats import Format
from bert_tf.weights.huggingface import tokenizers as folders
from pipelines.tokenizers import registry, sentencepiece_numbering
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary
from tests.tokenizers import SENTENCES, fairseq_model, library_modernbert

from .test_transformers import peer  # noqa: F401  # a fixture
from .test_weights import make_bundle

TEXTS = [*SENTENCES[:13], "  two  spaces\tand\nlines ", "12,345,678 1987", "½ ﬁne ① ㎏", "안녕 x\u0301 É e\u0301",
         "[unused0] a    b", "HELLO world", "a"]  # fmt: skip


def _fairseq(is_camembert):
    model = sentencepiece_numbering.of_fairseq(fairseq_model(), is_camembert, "")
    return SentencePieceVocabulary(model), {}


def _words(*first, last=()):
    letters = sorted({c for text in SENTENCES for c in text if c.isalnum()} | {*".,!?"})
    return WordPieceVocabulary((*first, *letters, *(f"##{c}" for c in letters), "hello", *last))


def _modernbert(folder):
    library = library_modernbert()
    (folder / "tokenizer.json").write_text(library.to_str())
    return folders.read("byte_bpe", str(folder), BertConfig(vocab_size=library.get_vocab_size()))


KINDS = {
    "xlm-roberta": lambda _: _fairseq(False),
    "camembert": lambda _: _fairseq(True),
    "mpnet": lambda _: (_words("<s>", "<pad>", "</s>", "<unk>", *SPECIAL_TOKENS, last=["<mask>"]), {}),
    # Of KLUE: cased, with accents, and ids in another order than BERT's.
    "roberta": lambda _: (
        _words("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"),
        {"lower_case": False, "strip_accents": False, "typed": False},
    ),
    "modernbert": _modernbert,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("family", KINDS)
def test_transformers_reads_the_tokenizers_that_we_write(family, peer, tmp_path):  # noqa: F811
    vocabulary, settings = KINDS[family](tmp_path)
    config = BertConfig.named(f"{family}-debug", vocab_size=len(vocabulary))
    drop = (bundle.NEXT_SENTENCE, bundle.POOLER)
    arrays = make_bundle(config, drop=drop).weights
    model = Bundle(config, arrays, vocabulary, vocabulary.resolve(settings))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    arguments = ("--folder", f"{tmp_path}/hf", "--texts", f"{tmp_path}/texts.json")
    theirs = json.loads(peer("tokenize", *arguments).split("\n")[-1])
    tokenizer = registry.make(vocabulary, settings)
    ours = []
    for made in (tokenizer(TEXTS), tokenizer(TEXTS[:-1], TEXTS[1:])):
        counts = made["input_mask"].numpy().sum(1)
        rows = zip(made["input_word_ids"].numpy().tolist(), counts, strict=True)
        ours += [row[:count] for row, count in rows]
    assert ours == theirs
    again = weights.read(f"{tmp_path}/hf")
    assert again.vocabulary == vocabulary
    assert again.resolved_settings() == model.resolved_settings()
