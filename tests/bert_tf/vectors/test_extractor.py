"""Features of tokens, words and texts, against the encoder's outputs for each text alone."""

import dataclasses
import itertools
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.vectors import extractor
from bert_tf.vectors.extractor import Embedder, FeatureExtractor
from bert_tf.vectors.settings import Combination, EmbeddingSettings, FeatureSettings
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests.bert_tf import exported
from tests.bert_tf.vectors import encoded
from tests.bert_tf.vectors.encoded import alone
from tests.pipelines.tokenizers import byte_bpe_reference

TEXTS = [*exported.TEXTS, "the mask", " "]
SENTENCES = [
    ["The", "small", "model", "reads"],
    ["un-related", "\u200b", "Zürich", "中国", "x"],
    ["kernel"],
    ["a", "deep", "kernel", "masks"] * 20,
]


def examples(texts):
    return extractor._text_examples(texts, None)


def make(folder, **settings):
    return FeatureExtractor(folder, FeatureSettings(**settings))


def test_tokens_have_the_outputs_of_each_layer(folders):
    bundle = weights.read(folders["pretrained"])
    tokens = bundle.require_vocabulary().tokens
    tokenizer = bundle.tokenizer()
    found = make(folders["pretrained"], layers=None)(TEXTS)
    assert len(found) == len(TEXTS)
    for text, row in zip(TEXTS, found, strict=True):
        layers, _ = alone(bundle, text)
        assert row.values.dtype == np.float32
        np.testing.assert_allclose(row.values, np.stack(layers, 1), atol=1e-5)
        ids = tokenizer.tokenize([text])[0].numpy()[:46]
        assert row.units.tokens == ["[CLS]", *(tokens[i] for i in ids), "[SEP]"]
        assert row.units.segments.tolist() == [-1, *[0] * len(ids), -1]
        assert row.units.words is None


FORMULAS = {
    "separate": lambda layers: np.stack(layers, 1),
    "concat": lambda layers: np.concatenate(layers, 1),
    "sum": lambda layers: layers[0] + layers[1],
    "mean": lambda layers: (layers[0] + layers[1]) / 2,
    "weighted": lambda layers: 0.25 * layers[0] - 2 * layers[1],
}


@pytest.mark.more_cases
@pytest.mark.parametrize("combine", Combination)
def test_layers_are_combined(folders, combine):
    bundle = weights.read(folders["pretrained"])
    factors = {"layer_weights": (0.25, -2.0)} if combine == "weighted" else {}
    features = make(folders["pretrained"], layers=(-1, 0), combine=combine, **factors)
    for text, row in zip(TEXTS[:3], features(TEXTS[:3]), strict=True):
        layers, _ = alone(bundle, text)
        np.testing.assert_allclose(row.values, FORMULAS[combine]([layers[2], layers[0]]), atol=1e-5)
        assert row.values.shape[1:] == features.shape


def _groups(bundle, text):
    """The tokens of each word of a text, by its places among those of the sequence."""
    groups = []
    begins = bundle.tokenizer().tokenize_by_word([text]).begins[0].numpy().tolist()
    for place, begin in enumerate(begins[:46], 1):
        groups.append([place]) if begin else groups[-1].append(place)
    return groups


@pytest.mark.more_cases
@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("layers", [(-1,), (1, 2)])
def test_words_have_their_first_token_or_the_mean(folders, pooling, layers):
    bundle = weights.read(folders["pretrained"])
    found = make(folders["pretrained"], unit="word", word_pooling=pooling, layers=layers)(TEXTS)
    several = 0
    for text, row in zip(TEXTS, found, strict=True):
        outputs, _ = alone(bundle, text)
        chosen = np.stack([outputs[layer] for layer in layers], 1)
        groups = _groups(bundle, text)
        several += sum(len(group) > 1 for group in groups)
        wanted = [chosen[g[0]] if pooling == "first" else chosen[g].mean(0) for g in groups]
        assert len(row.values) == len(groups) == len(row.units.tokens)
        if groups:
            np.testing.assert_allclose(row.values, wanted, atol=1e-5)
    assert several > 3


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_given_words_are_the_words(folders, pooling):
    bundle = weights.read(folders["tags"])
    tokenizer, encoder = bundle.tokenizer(), bundle.encoder()
    found = make(folders["tags"], unit="word", word_pooling=pooling).of_words(SENTENCES)
    for sentence, row in zip(SENTENCES, found, strict=True):
        pieces = [
            ids or [tokenizer.unknown_id] for ids in tokenizer.tokenize_words(sentence).to_list()
        ]
        ids = [token for word in pieces for token in word][:46]
        ids = [tokenizer.start_id, *ids, tokenizer.separator_id]
        output = encoder(tf.constant([ids]))["sequence_output"][0].numpy()
        ends = 1 + np.cumsum(list(map(len, pieces)))
        places = [
            range(end - len(word), min(end, 47))
            for word, end in zip(pieces, ends, strict=True)
            if end - len(word) < 47
        ]
        wanted = [output[p[0]] if pooling == "first" else output[list(p)].mean(0) for p in places]
        np.testing.assert_allclose(row.values[:, 0], wanted, atol=1e-5)
        assert row.units.tokens == sentence[: len(places)]
        text = " ".join(sentence).encode()
        spans = zip(row.units.starts, row.units.ends, strict=True)
        assert [text[a:b].decode() for a, b in spans] == row.units.tokens
    assert len(found[3].values) < len(SENTENCES[3])


def test_tokens_of_given_words_know_their_word(folders):
    (row,) = make(folders["tags"]).of_words([SENTENCES[1]])
    words = row.units.words.tolist()
    assert words[0] == words[-1] == -1
    assert sorted(set(words[1:-1])) == list(range(5)) and words[1:-1] == sorted(words[1:-1])
    bounds = np.cumsum([0] + [len(word.encode()) + 1 for word in SENTENCES[1]])
    for word, start, end in zip(words, row.units.starts, row.units.ends, strict=True):
        if word >= 0:
            assert bounds[word] <= start < end < bounds[word + 1]
        else:
            assert start == end == -1


def test_places_of_korean_and_emoji(vocab_path, tmp_path):
    pieces = ["한국", "##어", "좋", "##다", "중", "😀", "a", "##b", "👩", "é"]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += [unicodedata.normalize("NFD", piece).replace("\u0301", "") for piece in pieces]
    path = f"{tmp_path}/vocab.txt"
    WordPieceVocabulary(tuple(tokens)).write(path)
    weights.write(exported.make_bundle(path, [], 0), f"{tmp_path}/model", Format.BERT_TF)
    text = "한국어 좋다, 😀😀 👩‍👩‍👧 AB e\u0301"
    (row,) = make(f"{tmp_path}/model")([text])
    data = text.encode()
    spans = [data[a:b].decode() for a, b in zip(row.units.starts, row.units.ends, strict=True)]
    assert spans[1:6] == ["한국", "어", "좋", "다", ","]
    assert spans[6:8] == ["😀😀", "👩‍👩‍👧"]  # a word without pieces
    assert spans[8:] == ["A", "B", "e\u0301", ""]
    assert row.units.tokens[6:8] == ["[UNK]", "[UNK]"]
    assert row.units.starts[0] == row.units.ends[-1] == -1
    (words,) = make(f"{tmp_path}/model", unit="word")([text])
    assert words.units.tokens == ["한국어", "좋다", ",", "😀😀", "👩‍👩‍👧", "AB", "e\u0301"]
    (given,) = make(f"{tmp_path}/model").of_words([["한국어", "AB"]])
    assert given.units.starts.tolist() == [-1, 0, 6, 10, 11, -1]
    assert given.units.ends.tolist() == [-1, 6, 9, 11, 12, -1]


def test_pairs_are_two_segments_and_some_may_be_single(folders):
    bundle = weights.read(folders["same"])
    first, second = ["the layer", "a token", "a mask", ""], ["a mask", None, "", "short"]
    found = make(folders["same"])(first, second)
    for a, b, row in zip(first, second, found, strict=True):
        layers, _ = alone(bundle, a, b)
        np.testing.assert_allclose(row.values[:, 0], layers[2], atol=1e-5)
    texts = [first[0].encode(), second[0].encode()]
    units = found[0].units
    pieces = zip(units.segments, units.starts, units.ends, strict=True)
    spans = [texts[s][a:b].decode() for s, a, b in pieces if s >= 0]
    assert "".join(spans) == "thelayeramask"
    words = make(folders["same"], unit="word")(first, second)
    assert [row.units.tokens for row in words] == [
        ["the", "layer", "a", "mask"], ["a", "token"], ["a", "mask"], ["short"],
    ]  # fmt: skip
    assert words[0].units.segments.tolist() == [0, 0, 1, 1]
    with pytest.raises(InputError, match="1 texts have 2 second ones"):
        make(folders["same"])(["a"], ["b", "c"])


@pytest.mark.more_cases
@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "pooler"])
def test_features_of_texts_are_their_vectors(folders, pooling):
    found = make(folders["pretrained"], unit="text", pooling=pooling)(TEXTS)
    vectors = Embedder(folders["pretrained"], EmbeddingSettings(pooling=pooling))(TEXTS)
    np.testing.assert_allclose([row.values[0] for row in found], vectors, atol=1e-6)
    assert found[0].units is None


def _head(folder, name):
    arrays = weights.read(folder).weights
    return arrays[f"heads/{name}/kernel"], arrays[f"heads/{name}/bias"]


def test_the_head_of_tagging_on_words_gives_the_logits_of_an_export(folders, predictor):
    examples = [e for e in exported.make_examples("tags") if len(e.words) < 20]
    assert len(examples) > 3
    kernel, bias = _head(folders["tags"], "tags")
    found = make(folders["tags"], unit="word").of_words([e.words for e in examples])
    tokens = make(folders["tags"]).of_words([e.words for e in examples])
    tokenizer = weights.read(folders["tags"]).tokenizer()
    index = {token: number for number, token in enumerate(tokenizer.vocabulary.tokens)}
    for example, row, whole in zip(examples, found, tokens, strict=True):
        logits = row.values[:, 0] @ kernel + bias
        ids = np.int32([[index[token] for token in whole.units.tokens]])
        inputs = {"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0}
        answer = predictor("tags_ids", **inputs)["logits"][0]
        words = whole.units.words
        firsts = np.flatnonzero((words >= 0) & (np.diff(words, prepend=-2) != 0))
        np.testing.assert_allclose(logits, answer[firsts], atol=1e-5)
        said = predictor("tags_words", words=[list(example.words)])["tags"][0]
        tags = np.array(["A", "B", "C", "O"])[logits.argmax(-1)]
        assert [tag.decode() for tag in said] == tags.tolist()


def test_the_head_of_classification_on_the_pooler_gives_the_logits(folders, predictor):
    texts = [text for text in TEXTS if text.strip()]
    kernel, bias = _head(folders["mood"], "mood")
    longest = exported.MAX_LENGTH
    found = make(folders["mood"], unit="text", pooling="pooler", max_seq_length=longest)(texts)
    logits = np.concatenate([row.values for row in found]) @ kernel + bias
    answer = predictor("mood", text=texts)["logits"]
    np.testing.assert_allclose(logits, answer, atol=1e-5)


def test_progress_counts_all_texts(folders):
    counts = []
    features = make(folders["pretrained"], batch_tokens=60)
    features.extract(examples(TEXTS), counts.append)
    assert sum(counts) == len(TEXTS) and len(counts) > 1


def test_long_texts_are_cut_and_counted(folders):
    features = make(folders["pretrained"], max_seq_length=8, unit="word")
    block = features.extract(examples(["the " * 6, "the " * 7, "the"]))
    assert block.uncut.tolist() == [8, 9, 3]
    assert np.diff(block.row_splits).tolist() == [6, 6, 1]
    assert features([]) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": (3,)}, "--layers=3: .* has no such layer; they are 1 to 2, or -2 to -1"),
        ({"max_seq_length": 49}, r"--max_seq_length=49: .* takes at most 48 tokens"),
        ({"unit": "text", "pooling": "pooler", "layers": (1,)}, "leave --layers out"),
        ({"unit": "sentence"}, "--unit=sentence: it must be one of token, word, text"),
        ({"unit": "token", "pooling": "cls"}, "--pooling goes with --unit=text, not with token"),
        ({"word_pooling": "mean"}, "--word_pooling goes with --unit=word, not with token"),
        ({"combine": "weighted"}, "--combine=weighted: give --layer_weights"),
        ({"layer_weights": (1.0,)}, "--layer_weights goes with --combine=weighted, not with sep"),
        (
            {"layers": (1, 2), "combine": "weighted", "layer_weights": (1.0,)},
            "--layer_weights: 1 weights for 2 layers; give one for each",
        ),
        (
            {"layers": None, "combine": "weighted", "layer_weights": (1.0,)},
            "--layer_weights: 1 weights for 3 layers",
        ),
    ],
)
def test_settings_that_do_not_fit_are_reported(folders, settings, message):
    with pytest.raises(InputError, match=message):
        make(folders["pretrained"], **settings)


@pytest.mark.slow
def test_features_are_the_hidden_states_of_transformers(tmp_path):
    """All layers of a released encoder, of tokens and of words."""
    folder = encoded.peer_folder()
    tokenizer = weights.read(folder).tokenizer()
    texts = ["It rained unbelievably long.", "Rain fell.", "", "한국어와 emoji 😀, naïvely."]
    rows = encoded.peer_rows(tokenizer, texts)
    mask, theirs = encoded.peer_outputs(tmp_path, folder, rows)
    states = theirs["hidden_states"].transpose(1, 2, 0, 3)
    assert states.shape[2:] == (7, 384)
    for unit, pooling in (("token", "first"), ("word", "first"), ("word", "mean")):
        found = make(folder, unit=unit, word_pooling=pooling, layers=None)(texts)
        for index, row in enumerate(found):
            wanted = states[index, : mask[index].sum()]
            if unit == "word":
                begins = tokenizer.begins_word[rows[index]][1:-1]
                bounds = [*(1 + np.flatnonzero(begins)), len(rows[index]) - 1]
                groups = [range(a, b) for a, b in itertools.pairwise(bounds)]
                wanted = [
                    wanted[g[0]] if pooling == "first" else wanted[list(g)].mean(0) for g in groups
                ]
            assert len(row.values) == len(wanted)
            assert not len(wanted) or np.abs(row.values - wanted).max() < 1e-5


def test_a_roberta_has_features_of_tokens_words_and_pairs(tmp_path):
    learned = byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400)
    config = dataclasses.replace(
        BertConfig.named("roberta-debug"), vocab_size=len(learned), num_hidden_layers=1
    )
    bundle = exported.random_bundle(config, learned, without=())
    folder = f"{tmp_path}/model"
    weights.write(bundle, folder, Format.BERT_TF)
    tokenizer, encoder = bundle.tokenizer(), bundle.encoder()
    first, second = ["The model's words 한국어", "It is"], ["isn't it? 👍", None]
    found = make(folder)(first, second)
    start, end = tokenizer.start_id, tokenizer.separator_id
    for a, b, row in zip(first, second, found, strict=True):
        ids = [start, *tokenizer.tokenize([a])[0].numpy(), end]
        ids += [] if b is None else [end, *tokenizer.tokenize([b])[0].numpy(), end]
        wanted = encoder(tf.constant([ids], tf.int32))["sequence_output"][0]
        np.testing.assert_allclose(row.values[:, 0], wanted, atol=1e-5)
        assert row.units.tokens == [learned.tokens[token] for token in ids]
    words = make(folder, unit="word")(first, second)
    assert words[0].units.tokens == [
        *("The", "model", "'s", "words", "한국어", "isn", "'t", "it", "?", "👍"),
    ]  # fmt: skip
    assert words[0].units.segments.tolist() == [0] * 5 + [1] * 5
    (given,) = make(folder, unit="word").of_words([["model's", "한국어"]])
    assert given.units.tokens == ["model's", "한국어"] and given.values.shape == (2, 1, 64)


def test_sentences_may_have_no_words(folders):
    features = make(folders["tags"], unit="word")
    assert [len(row.values) for row in features.of_words([[], ["a"], []])] == [0, 1, 0]
    assert [len(row.values) for row in features.of_words([[], []])] == [0, 0]
    (row,) = make(folders["tags"]).of_words([[]])
    assert row.units.tokens == ["[CLS]", "[SEP]"] and row.units.words.tolist() == [-1, -1]
