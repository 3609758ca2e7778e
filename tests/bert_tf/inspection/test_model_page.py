"""What a page shows of a model that reads a text: equal to what model, tasks and exports say."""

import dataclasses
import gzip

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.inspection import attention, model_page, tokens
from bert_tf.inspection.attribution import Attributor
from bert_tf.inspection.settings import InspectionSettings
from bert_tf.models.config import BertConfig
from bert_tf.tasks.inspection import Reader, Reading
from bert_tf.tasks.numbered import NumberedTokenizer
from bert_tf.tasks.pretrained import _pack
from bert_tf.tasks.signatures import ServedModel
from bert_tf.tasks.span import inspection as span
from bert_tf.tasks.span.decoding import Candidate
from bert_tf.tasks.tagging import inspection as tagging
from bert_tf.weights import formats
from pipelines.common.errors import InputError
from pipelines.labelled.features import FeatureColumn
from pipelines.tokenizers import registry
from pipelines.tokenizers.bpe_vocabulary import BYTE_LETTERS, END_OF_TEXT, ByteBPEVocabulary
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary
from tests.bert_tf.exported import MAX_LENGTH, TEXTS, random_bundle
from tests.tiny import tiny_config

MASKED = "The [MASK] model reads  every [MASK]of the token ☃."
SETTINGS = InspectionSettings(guesses=5, attribution_steps=32)


def test_the_window_shown_is_the_one_that_answers():
    """Both windows have the bytes; the one with less context before them may not answer."""
    columns = {"starts": [5, 9], "ends": [8, 12], "best": [1, 0]}
    other = columns | {"best": [0, 1]}
    features = {
        name: FeatureColumn.of(tf.ragged.constant([columns[name], other[name]])) for name in columns
    } | {"offset": FeatureColumn.of(tf.ragged.constant([[2], [2]]))}
    high, low = np.full((6, 2), 9, np.float32), np.zeros((6, 2), np.float32)
    reading = Reading(features, [], [low, high])
    place = span._place_of(Candidate("x", 0, 0, 5, 8), reading)
    assert place == (0, 2, 2)


def _look(folders, name, *texts, settings=SETTINGS):
    return model_page.inspect(
        folders[name], texts, settings, None if name == "pretrained" else name
    )


def test_a_text_without_special_tokens_is_read(tmp_path):
    """GPT-2 has none around a text: its last piece of a character has no token after it."""
    vocabulary = ByteBPEVocabulary((*BYTE_LETTERS, END_OF_TEXT), ())
    config = BertConfig.named("gpt2-debug", vocab_size=257)
    model = random_bundle(config, vocabulary, [], 0, without=("next_sentence", "masked_lm"))
    settings = vocabulary.resolve({"framed": False})
    formats.write(dataclasses.replace(model, tokenizer_settings=settings), f"{tmp_path}/gpt2")
    shown = model_page.inspect(f"{tmp_path}/gpt2", ("a \u00e9",), SETTINGS, None)
    assert [token["label"] for token in shown.values["tokens"]] == ["a", "Ġ", "C3", "A9"]


def _bytes_of(text, token):
    return text.encode()[slice(*token["bytes"])]


def _characters_of(text, token):
    return text[slice(*token["characters"])]


@pytest.mark.parametrize("text", TEXTS[:4] + TEXTS[4:5] + TEXTS[6:])
def test_tokens_stand_where_they_are_said_to(folders, text):
    found = _look(folders, "pretrained", text).values["tokens"]
    assert found[0]["token"] == "[CLS]" and found[-1]["token"] == "[SEP]"
    inner = found[1:-1]
    assert inner and not any(token["special"] for token in inner)
    for token in inner:
        assert _bytes_of(text, token).decode() == _characters_of(text, token)
        assert token["label"] == _characters_of(text, token)
    bounds = [place for token in inner for place in token["characters"]]
    assert bounds == sorted(bounds)


def test_sequences_are_those_of_packing(folders):
    tokenizer = weights.read(folders["pretrained"]).tokenizer()
    for first, second in zip(TEXTS, reversed(TEXTS), strict=True):
        for most in (8, 24, 500):
            packed, _ = tokenizer.pack_texts([first], [second], most)
            found = tokens.pack(tokenizer, (first, second), most)
            assert found.ids.tolist() == packed.word_ids.to_list()[0]
            assert found.types.tolist() == packed.type_ids.to_list()[0]


@pytest.mark.more_cases
@pytest.mark.parametrize("text", [MASKED, "[MASK]", "[MASK][MASK] a", "no mask", "a [mask]"])
def test_masks_are_found_as_an_export_finds_them(folders, text):
    bundle = weights.read(folders["pretrained"])
    model = ServedModel(bundle.tokenizer(), bundle.encoder())
    ids = _pack(model, tf.constant([text]))["input_word_ids"]
    found = tokens.pack(bundle.tokenizer(), (text,), 48, masks=True)
    assert found.ids.tolist() == ids.numpy()[0].tolist()
    for at in np.flatnonzero(found.ids == bundle.tokenizer().mask_id):
        assert text.encode()[found.starts[at] : found.ends[at]] == b"[MASK]"


def test_attention_is_that_of_the_encoder(folders):
    look = _look(folders, "pretrained", MASKED)
    bundle = weights.read(folders["pretrained"])
    sequence = tokens.pack(bundle.tokenizer(), (MASKED,), 48, masks=True)
    expected = np.stack(
        [layer[0].numpy() for layer in bundle.encoder()(sequence.inputs())["attention_probs"]]
    )
    found = attention.of_encoder(bundle.encoder(), sequence)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    assert found.shape == (2, 4, len(sequence), len(sequence))
    packed = gzip.decompress(look.parts["attention"])
    steps = np.frombuffer(packed, np.uint8).reshape(found.shape)
    shown = np.square(steps.astype(np.float32) / 255)  # as the page restores it
    assert (np.abs(shown - found) <= np.sqrt(np.maximum(found, shown)) / 255 + 1e-6).all()
    shares = np.array(look.values["attention"]["shares"])
    means = found.mean((0, 1))
    traits = [np.trace(means, k) for k in (0, -1, 1)] + [means[:, 0].sum(), means[:, -1].sum()]
    np.testing.assert_allclose(shares.mean((0, 1)), np.array(traits) / len(sequence), atol=2e-3)


def test_guesses_for_masks_are_those_of_the_predictor(folders, predictor):
    found = _look(folders, "pretrained", MASKED).values["guesses"]
    answer = predictor("fill_mask", text=[MASKED])
    assert found["masked"] and len(found["tokens"]) == 2
    for guess, words, shares in zip(
        found["tokens"], answer["tokens"][0], answer["probabilities"][0], strict=True
    ):
        assert guess["probability"] is guess["bits"] is None
        assert [token for token, _ in guess["guesses"]] == [word.decode() for word in words]
        np.testing.assert_allclose([share for _, share in guess["guesses"]], shares, rtol=1e-3)


def test_a_text_without_masks_has_each_token_masked_in_turn(folders, predictor):
    text = "The small model reads every layer."
    small = InspectionSettings(guesses=5, batch_tokens=20)  # two sequences at once
    values = _look(folders, "pretrained", text, settings=small).values
    found, tokens = values["guesses"], values["tokens"]
    assert [guess["position"] for guess in found["tokens"]] == list(range(1, len(tokens) - 1))
    whole = [token for token in tokens[1:-1] if _bytes_of(text, token).decode() in text.split()]
    assert len(whole) >= 3
    for token in whole:
        start, end = token["characters"]
        guess = found["tokens"][tokens.index(token) - 1]
        answer = predictor("fill_mask", text=[f"{text[:start]}[MASK]{text[end:]}"])
        shares = answer["probabilities"][0, 0]
        np.testing.assert_allclose([share for _, share in guess["guesses"]], shares, rtol=1e-3)
        assert guess["bits"] == pytest.approx(-np.log2(guess["probability"]), rel=1e-3)
    bits = [guess["bits"] for guess in found["tokens"]]
    assert found["mean_bits"] == pytest.approx(np.mean(bits), rel=1e-3)
    assert found["pseudo_perplexity"] == pytest.approx(2 ** np.mean(bits), rel=1e-2)


def test_labels_are_those_of_the_predictor(folders, predictor):
    values = _look(folders, "mood", TEXTS[0]).values
    expected = predictor("mood", text=[TEXTS[0]])
    answer = values["answer"]
    assert answer["text"] == expected["label"][0].decode() == answer["rows"][0]["name"]
    shares = {row["name"]: row["share"] for row in answer["rows"]}
    np.testing.assert_allclose(
        [shares[label] for label in ("bad", "good", "so-so")],
        expected["probabilities"][0], rtol=1e-3,
    )  # fmt: skip
    assert [target["name"] for target in answer["targets"]] == [r["name"] for r in answer["rows"]]
    assert values["guesses"] is None


def test_scores_and_labels_of_pairs_are_those_of_the_predictor(folders, predictor, tmp_path):
    pair = dict(zip(("text_a", "text_b"), TEXTS[:2], strict=True))
    found = _look(folders, "score", *TEXTS[:2]).values["answer"]
    (score,) = predictor("score", **{name: [text] for name, text in pair.items()})["score"]
    assert float(found["text"]) == pytest.approx(float(score), abs=1e-3)
    assert found["targets"][0]["output"] == pytest.approx(float(score), abs=1e-4)
    bundle = weights.read(folders["score"])
    rank = tuple({**task, "activation": "sigmoid"} for task in bundle.tasks)
    weights.write(dataclasses.replace(bundle, tasks=rank), f"{tmp_path}/rank")
    rank_folders = {"score": f"{tmp_path}/rank"}
    (target,) = _look(rank_folders, "score", *TEXTS[:2]).values["answer"]["targets"]
    assert target["output"] == pytest.approx(1 / (1 + np.exp(-float(score))), abs=1e-4)
    found = _look(folders, "same", *TEXTS[:2]).values
    expected = predictor("same", **{name: [text] for name, text in pair.items()})
    assert found["answer"]["text"] == expected["label"][0].decode()
    assert {token["segment"] for token in found["tokens"]} == {0, 1}


@pytest.mark.more_cases
@pytest.mark.parametrize("name", ["qa", "qa1"])
def test_answers_to_questions_are_those_of_the_predictor(folders, predictor, name):
    question, context = "What stores the vector?", TEXTS[4] + " " + TEXTS[3][:150]
    expected = predictor(name, question=[question], context=[context])
    values = _look(folders, name, question, context).values
    answer = values["answer"]
    assert answer["text"] == (expected["answer"][0].decode() or "no answer")
    assert "windows; number" in answer["notes"][0]
    if answer["span"]:
        first, last = (values["tokens"][at] for at in answer["span"])
        places = [first["bytes"][0], last["bytes"][1]]
        assert places == [expected["start"][0], expected["end"][0]]
        assert context.encode()[slice(*places)].decode() == answer["text"]
    shares = [row["share"] for row in answer["rows"]]
    known = expected["n_best_score"][0, : len(shares)]
    assert max(shares) == pytest.approx(
        max(known.max(), expected["no_answer_probability"][0]), rel=1e-3
    )


@pytest.mark.more
def test_tags_are_those_of_the_predictor(folders, predictor):
    for text in (TEXTS[0], TEXTS[4], TEXTS[6], TEXTS[3]):
        expected = predictor("tags", text=[text])
        values = _look(folders, "tags", text).values
        tags, tokens = values["answer"]["tags"], values["tokens"]
        count = len(tags)
        assert [tag["tag"] for tag in tags] == [t.decode() for t in expected["tags"][0, :count]]
        np.testing.assert_allclose(
            [tag["share"] for tag in tags], expected["probabilities"][0, :count], rtol=1e-3
        )
        starts = [tokens[tag["position"]]["bytes"][0] for tag in tags]
        assert starts == expected["starts"][0, :count].tolist()
        cut = count < (expected["tags"][0] != b"").sum()
        assert cut == any("further sequences" in note for note in values["answer"]["notes"])
    assert cut  # of the last one


def test_choices_are_those_of_the_predictor(folders, predictor):
    choices = ["one", "the layer", "every shard"]
    expected = predictor("pick", context=[TEXTS[0]], choices=[choices])
    values = _look(folders, "pick", TEXTS[0], *choices).values
    best = choices[int(expected["choice"][0])]
    assert values["answer"]["text"] == best
    assert [text["text"] for text in values["texts"]] == [TEXTS[0], best]
    shares = {row["name"]: row["share"] for row in values["answer"]["rows"]}
    np.testing.assert_allclose(
        [shares[choice] for choice in choices], expected["probabilities"][0], rtol=1e-3
    )


ASKED = {
    "mood": TEXTS[:1],
    "same": TEXTS[:2],
    "score": TEXTS[:2],
    "qa1": ["What stores the vector?", TEXTS[4]],
    "tags": TEXTS[:1],
    "pick": [TEXTS[0], "one", "the layer"],
}


@pytest.mark.parametrize("name", ASKED)
def test_attributions_add_up(folders, name):
    values = _look(folders, name, *ASKED[name]).values
    for target in values["answer"]["targets"]:
        assert len(target["tokens"]) == len(values["tokens"])
        difference = target["output"] - target["baseline"]
        assert abs(sum(target["tokens"]) - difference) <= 0.01 * max(abs(difference), 0.05)
        special = [t["special"] for t in values["tokens"]]
        assert not np.array(target["tokens"])[special].any()
        assert np.abs(target["tokens"]).max() > 0


def test_attributions_are_the_integral_of_finite_differences(folders):
    """Each token's own, by slopes in its direction alone, at the middles of equal parts."""
    bundle = weights.read(folders["mood"])
    task = tasks.load(bundle.task("mood"), MAX_LENGTH)
    model, tokenizer = bundle.task_model([task]), bundle.tokenizer()
    sequence = tokens.pack(tokenizer, ["The small model"], MAX_LENGTH)
    head = model.heads.of["mood"]
    attributor = Attributor(model.encoder, head, tokenizer.pad_id, 40, 4096)
    (found,) = attributor.attribute(sequence, [lambda logits: logits[:, 1]])

    def embedded(ids):
        types = sequence.inputs()["input_type_ids"]
        return model.encoder.embeddings(tf.constant([ids], tf.int32), types).numpy()

    ids = sequence.ids
    baseline = np.where(sequence.special, ids, tokenizer.pad_id)
    first, last = embedded(baseline).astype("f8"), embedded(ids).astype("f8")

    parts, small = 60, 0.02
    middles = first + (np.arange(parts)[:, None, None] + 0.5) / parts * (last - first)

    def scores(rows):
        mask = tf.ones([len(rows), len(ids)], tf.int32)
        flat = tf.constant(rows.reshape(-1, rows.shape[-1]), tf.float32)
        return head(model.encoder.encode(flat, mask))[:, 1].numpy().astype("f8")

    for at in range(len(ids)):
        step = np.zeros_like(first)
        step[at] = small * (last - first)[at]
        slopes = (scores(middles + step) - scores(middles - step)) / (2 * small)
        assert found.tokens[at] == pytest.approx(np.mean(slopes), abs=0.02)
    assert found.output == pytest.approx(float(model(sequence.inputs())["mood"][0, 1]), abs=1e-5)


@pytest.fixture(scope="module")
def byte_model(tmp_path_factory):
    """A RoBERTa of random weights whose tokens are bytes."""
    from pipelines.tokenizers import bpe_vocabulary

    letters = bpe_vocabulary.BYTE_LETTERS
    tokens = (*bpe_vocabulary.SPECIAL_TOKENS, *letters)
    vocabulary = bpe_vocabulary.ByteBPEVocabulary(tokens, ())
    config = tiny_config(
        len(tokens), num_hidden_layers=1, type_vocab_size=1, model_type="roberta", position_offset=2
    )
    bundle = random_bundle(config, vocabulary, deviation=1, without=("next_sentence",))
    folder = str(tmp_path_factory.mktemp("bytes") / "model")
    weights.write(bundle, folder, formats.Format.BERT_TF)
    return folder


def test_parts_of_characters_are_called_by_their_bytes(byte_model):
    values = model_page.inspect(byte_model, ["a é <mask>b"], SETTINGS).values
    labels = [token["label"] for token in values["tokens"]]
    assert labels[1:] == ["a", "Ġ", "C3", "A9", "<mask>", "b", "</s>"]
    parts, mask = values["tokens"][3:5], values["tokens"][-3]
    assert [(part["characters"], part["bytes"]) for part in parts] == [([2, 3], [2, 4])] * 2
    assert mask["characters"] == [4, 10] and mask["bytes"] == [5, 11]
    assert values["guesses"]["masked"]


def test_pieces_of_one_character_are_called_by_their_own_text():
    vocabulary = WordPieceVocabulary((*SPECIAL_TOKENS, "ᄒ", "##ᅡ", "##ᆫ", "a"))
    tokenizer = registry.make(vocabulary, vocabulary.resolve({"lower_case": True}))
    sequence = tokens.pack(tokenizer, ["한 A"], 10)
    found = tokens.describe(tokenizer, sequence, ["한 A"])
    assert [token["label"] for token in found] == ["[CLS]", "ᄒ", "ᅡ", "ᆫ", "A", "[SEP]"]
    assert [token["characters"] for token in found[1:5]] == [[0, 1], [0, 1], [0, 1], [2, 3]]


def test_directions_of_texts_are_found(folders):
    texts = ("שלום עולם", "123 مرحبا")
    values = _look(folders, "same", *texts).values
    assert [text["rtl"] for text in values["texts"]] == [True, True]
    assert _look(folders, "pretrained", "한국어 😀").values["texts"][0]["rtl"] is False


def test_texts_that_a_model_does_not_take_are_refused(folders, export):
    for name, texts, message in (
        ("mood", TEXTS[:2], "the task mood takes one text (--sentence), not 2."),
        ("same", TEXTS[:1], "the task same takes two texts (--sentence and --second), not 1."),
        ("qa", TEXTS[:1], "the task qa takes two texts"),
        ("tags", ["\u200b"], "--sentence: has no words to tag."),
        ("pick", TEXTS[:2], "the task pick chooses among texts; give two or more, each with"),
        ("pretrained", TEXTS[:3], "has no task that chooses among texts; give --second= once."),
    ):
        with pytest.raises(InputError) as caught:
            _look(folders, name, *texts)
        assert message in str(caught.value)
    with pytest.raises(InputError, match="is an export, which does not show its layers"):
        model_page.inspect(export, ["a"], SETTINGS)
    with pytest.raises(InputError, match="has no task; fine-tune it for one first"):
        model_page.inspect(folders["pretrained"], ["a"], SETTINGS, "mood")


def test_a_shape_without_inspection_is_shown_without_an_answer(folders, monkeypatch):
    monkeypatch.setattr(model_page, "_inspection_of", lambda task: None)
    values = _look(folders, "mood", TEXTS[0]).values
    assert values["answer"] is None and values["tokens"][1]["token"] == "the"
    assert len(values["attention"]["shares"]) == 2


def test_a_long_text_is_said_to_be_cut(folders, caplog):
    values = _look(folders, "pretrained", "film " * 100).values
    assert f"Cut to fit {len(values['tokens'])} tokens" in caplog.text


def test_long_texts_are_tagged_without_document_context(folders):
    bundle = weights.read(folders["tags"])
    task = tasks.load(bundle.task("tags"), MAX_LENGTH)

    def inspected(task):
        reader = Reader(
            NumberedTokenizer(bundle.tokenizer()),
            lambda found: np.zeros([len(found), 4], np.float32),
        )
        return tagging.inspect(task, [TEXTS[3]], reader)

    alone = inspected(task)
    in_document = inspected(dataclasses.replace(task, document_context=True))
    assert in_document.sequence.ids.tolist() == alone.sequence.ids.tolist()
    assert in_document.tags == alone.tags and "further sequences" in alone.notes[-1]


def test_a_mask_in_a_pair_is_guessed(folders):
    values = _look(folders, "pretrained", MASKED, "A second text.").values
    assert values["answer"]["task"] == "next_sentence"
    masks = [place for place, token in enumerate(values["tokens"]) if token["label"] == "[MASK]"]
    assert len(masks) == MASKED.count("[MASK]") > 0
    assert values["guesses"]["masked"]
    assert [guess["position"] for guess in values["guesses"]["tokens"]] == masks
