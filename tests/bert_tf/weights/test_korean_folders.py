"""Korean models in Hugging Face folders: KLUE, KoELECTRA, KcBERT, KoBERT and KR-BERT."""

import dataclasses
import io
import json
import random
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.weights import bundle
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.formats import Format
from bert_tf.weights.huggingface import tokenizers as folders
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.sentencepiece_vocabulary import SPACE
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary
from tests.real_data import data_of
from tests.tokenizers import library_wordpiece

from .test_weights import assert_same_weights, make_bundle

SENTENCES = [
    "한국어 모델을 공유합니다.",
    "이 영화 정말 재밌다 ㅋㅋㅋ, 1999, 꼭 보세요!",
    "Hello 안녕 BERT 물 론",
] * 9
TEXTS = [*SENTENCES[:3], "", " ", unicodedata.normalize("NFD", SENTENCES[0]), "가\u3000나 ½ café é", "…㉠①ﬁ", "a\u200bb\u0007 뷁"]  # fmt: skip
KOBERT = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]


def kobert(folder):
    """Writes the two files of a small KoBERT; returns the SentencePiece processor."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=90, minloglevel=2,
        hard_vocab_limit=False, num_threads=1,
    )  # fmt: skip
    found = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [found.id_to_piece(index) for index in range(3, len(found))]
    random.Random(0).shuffle(pieces)
    (folder / "tokenizer_78b3253a26.model").write_bytes(model.getvalue())
    (folder / "vocab.txt").write_text("\n".join([*KOBERT, *pieces]) + "\n")
    return found


def kobert_ids(processor, text, ids):
    """`_tokenize` of monologg's tokenization_kobert.py."""
    text = unicodedata.normalize("NFKD", " ".join(text.split()))
    text = "".join(c for c in text if not unicodedata.combining(c))
    found = []
    for piece in processor.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            inner = processor.encode(piece[:-1].replace(SPACE, ""), out_type=str)
            if piece[0] != SPACE and inner[0][0] == SPACE:
                inner = inner[1:] if len(inner[0]) == 1 else [inner[0][1:], *inner[1:]]
            found += [*inner, ","]
        else:
            found.append(piece)
    return [ids.get(piece, 0) for piece in found]


def test_kobert_has_the_ids_of_its_vocab_txt(tmp_path):
    processor = kobert(tmp_path)
    stated = {"do_lower_case": False, "tokenizer_class": "KoBertTokenizer",
              "auto_map": {"AutoTokenizer": ["tokenization_kobert.KoBertTokenizer", None]}}  # fmt: skip
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    lines = (tmp_path / "vocab.txt").read_text().split("\n")[:-1]
    config = BertConfig.named("debug", vocab_size=len(lines))
    vocabulary, settings = folders.read("wordpiece", str(tmp_path), config)
    assert list(vocabulary.tokens) == lines
    tokenizer = registry.make(vocabulary, settings)
    ids = {token: index for index, token in enumerate(lines)}
    expected = [kobert_ids(processor, text, ids) for text in TEXTS]
    assert tokenizer.tokenize(TEXTS).to_list() == expected
    single = ids[SPACE], ids["물"]
    assert tuple(tokenizer.tokenize(["물"]).to_list()[0]) == single  # no piece has both
    made = tokenizer(["물"], ["론"])
    assert made["input_word_ids"].numpy()[0].tolist()[:5] == [2, *single, 3, ids[SPACE]]
    assert made["input_type_ids"].numpy()[0].tolist()[3:5] == [0, 1]
    (tmp_path / "again").mkdir()
    model = Bundle(config, {}, vocabulary, settings, (), "a model")
    folders.write(model, str(tmp_path / "again"))
    assert folders.read("wordpiece", str(tmp_path / "again"), config)[0] == vocabulary
    (tmp_path / "vocab.txt").write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(InputError, match=r"78b3253a26\.model: the vocabulary lacks its piece"):
        folders.read("wordpiece", str(tmp_path), config)


def jamo():
    """A small vocabulary of parts of syllables."""
    letters = sorted({c for text in SENTENCES for c in unicodedata.normalize("NFKD", text)} - {" "})
    return [*SPECIAL_TOKENS, *letters, *(f"##{c}" for c in letters), "한국", "##\u0301"]


def published(library, texts):
    """The ids of KR-BERT's sub-characters: BertTokenizer after `to_subchar` of its README."""
    texts = [unicodedata.normalize("NFKD", text) for text in texts]
    return [each.ids for each in library.encode_batch(texts, add_special_tokens=False)]


def of(tokens, folder):
    """The tokenizer of a folder that has a vocab.txt alone."""
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    config = BertConfig(vocab_size=len(tokens), type_vocab_size=1)
    return registry.make(*folders.read("byte_bpe", str(folder), config))


def test_a_vocabulary_of_parts_of_syllables_decomposes(tmp_path):
    tokens = [unicodedata.normalize("NFKD", token) for token in jamo()]
    tokenizer = of(tokens, tmp_path)
    library = library_wordpiece(tokens, lowercase=False)
    assert tokenizer.tokenize(TEXTS).to_list() == published(library, TEXTS)
    texts = ["물 한국어"]
    ids, starts, ends = (each.to_list()[0] for each in tokenizer.tokenize_with_offsets(texts))
    places = [texts[0].encode()[a:b].decode() for a, b in zip(starts, ends, strict=True)]
    assert places[:4] == ["물", "물", "물", "한국"] and len(ids) == len(places)
    again = WordPieceVocabulary(tuple(tokens))
    assert "decompose" not in again.resolve({}) and again.complete({})["decompose"]
    assert not WordPieceVocabulary((*tokens, "한")).complete({})["decompose"]
    # As in KLUE's RoBERTa, with one token type.
    assert not tokenizer(["한국"], ["물"])["input_type_ids"].numpy().any()


# The class, the keys that matter, and the tokenizer settings of published folders.
KOREAN = {
    "KLUE-BERT": ("BertForMaskedLM", {}, {"do_basic_tokenize": True, "never_split": None}),
    "KcBERT": ("BertForMaskedLM", {"max_position_embeddings": 300}, {"max_len": 300}),
    "KoELECTRA": ("ElectraForPreTraining", {}, {"model_max_length": 64}),
    "KLUE-RoBERTa": ("RobertaForMaskedLM", {}, {"tokenizer_class": "BertTokenizer"}),
}  # fmt: skip
KLUE_ROBERTA = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]  # in the order of ids


@pytest.mark.parametrize("name", KOREAN)
def test_folders_of_word_pieces(name, tmp_path):
    """Cased, with accents, as their vocabularies are; those of RoBERTa have other ids."""
    architecture, keys, stated = KOREAN[name]
    family = architecture.split("For")[0].lower()
    first = KLUE_ROBERTA if family == "roberta" else [*SPECIAL_TOKENS]
    letters = sorted({c for text in [*SENTENCES, "Café ab É"] for c in text if c != " "})
    tokens = [*first, *letters, *(f"##{c}" for c in letters), "한국", "##국어"]
    prefix = "" if family == "bert" else f"{family}-"
    config = BertConfig.named(f"{prefix}debug", vocab_size=len(tokens), hidden_size=8,
                              num_attention_heads=2, intermediate_size=8)  # fmt: skip
    if "max_position_embeddings" in keys:
        config = dataclasses.replace(config, **keys)
    drop = (bundle.NEXT_SENTENCE, bundle.POOLER, *bundle.GENERATOR)
    drop = (*drop, bundle.MASKED_LM if family == "electra" else bundle.REPLACED_TOKEN)
    made = make_bundle(config, drop=drop)
    made = dataclasses.replace(made, vocabulary=WordPieceVocabulary(tuple(tokens)),
                               tokenizer_settings={"lower_case": False, "strip_accents": False})  # fmt: skip
    weights.write(made, str(tmp_path / "hf"), Format.HUGGINGFACE)
    values = json.loads((tmp_path / "hf/config.json").read_text())
    assert values["architectures"] == [architecture]
    settings = tmp_path / "hf/tokenizer_config.json"
    settings.write_text(json.dumps({"do_lower_case": False, **stated}))
    (tmp_path / "hf/tokenizer.json").unlink()
    found = weights.read(str(tmp_path / "hf"))
    assert found.config == dataclasses.replace(config, generator_size=None)
    assert_same_weights(found.weights, made.weights)
    tokenizer, library = found.tokenizer(), library_wordpiece(tokens, lowercase=False)
    texts = [*TEXTS, "Café É ab", "中文 한국어"]
    expected = [each.ids for each in library.encode_batch(texts, add_special_tokens=False)]
    assert tokenizer.tokenize(texts).to_list() == expected
    assert tokenizer.pad_id == tokens.index("[PAD]")
    pairs = tokenizer(["한국"], ["물"])
    ids = library.encode("한국", "물").ids
    assert pairs["input_word_ids"].numpy()[0].tolist() == ids
    second = [0, 0, 0, 1, 1]
    assert pairs["input_type_ids"].numpy()[0].tolist() == (
        [0] * 5 if family == "roberta" else second
    )
    # What no cased model wants is followed.
    library_wordpiece(tokens, lowercase=False, strip_accents=False).save(
        str(tmp_path / "hf/tokenizer.json")
    )
    assert weights.read(str(tmp_path / "hf")).tokenizer().settings == tokenizer.settings
    (tmp_path / "hf/tokenizer.json").unlink()
    settings.write_text(json.dumps({"do_lower_case": False, "strip_accents": True, **stated}))
    library = library_wordpiece(tokens, lowercase=False, strip_accents=True)
    expected = [each.ids for each in library.encode_batch(texts, add_special_tokens=False)]
    assert weights.read(str(tmp_path / "hf")).tokenizer().tokenize(texts).to_list() == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["char16424", "subchar12367"])
def test_kr_bert_on_movie_reviews(name, tmp_path):
    lines = data_of(f"vocabs/kr-bert-{name}-vocab.txt").read_text(encoding="utf-8").split("\n")
    tokens = [line for line in lines if line]
    tokenizer = of(tokens, tmp_path)
    library = library_wordpiece(tokens, lowercase=False)
    rows = data_of("nsmc/ratings_train.official_part.txt").read_text(encoding="utf-8").split("\n")
    texts = [row.split("\t")[1] for row in rows if row]
    ids = [each.ids for each in library.encode_batch(texts, add_special_tokens=False)]
    expected = ids if name[0] == "c" else published(library, texts)
    for first in range(0, len(texts), 5000):
        some = tf.constant(texts[first : first + 5000])
        assert tokenizer.tokenize(some).to_list() == expected[first : first + 5000]
