"""The tokenizer.json that we write, as its library reads it; servers of other programs do."""

import collections
import json

import pytest
import tokenizers as library

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.weights import bundle
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.formats import Format
from pipelines.tokenizers import byte_bpe_words, registry
from pipelines.tokenizers.bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS
from tests.bert_tf.exported import random_bundle
from tests.tokenizers import SENTENCES

from .test_transformers_tokenizers import KINDS, _words
from .test_weights import make_bundle

TEXTS = [*SENTENCES[:13], "  two  spaces\tand\nlines ", "안녕 x\u0301 É e\u0301", "HELLO world"]
TEXTS += ["a" * 150, "nul\0 and \x07 bell"]


def _byte_bpe():
    words = byte_bpe_words.split_words(["the word of the words, the other words"] * 9)
    counts = collections.Counter(words.numpy().tolist())
    return ByteBPEVocabulary.learn(counts, 270)


CASES = {
    "bert": (lambda _: (_words(*SPECIAL_TOKENS), {}), "bert"),
    "cased": (lambda _: (_words(*SPECIAL_TOKENS), {"lower_case": False}), "bert"),
    "mpnet": (KINDS["mpnet"], "mpnet"),
    "klue": (KINDS["roberta"], "roberta"),
    "byte_bpe": (lambda _: (_byte_bpe(), {}), "roberta"),
    "space": (lambda _: (_byte_bpe(), {"add_prefix_space": True}), "roberta"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_library_reads_the_same_tokenizer(case, tmp_path):
    make, family = CASES[case]
    vocabulary, settings = make(tmp_path)
    config = BertConfig.named(f"{family}-debug", vocab_size=len(vocabulary))
    arrays = make_bundle(config, drop=(bundle.NEXT_SENTENCE, bundle.POOLER)).weights
    model = Bundle(config, arrays, vocabulary, vocabulary.resolve(settings))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    theirs = library.Tokenizer.from_file(f"{tmp_path}/hf/tokenizer.json")
    tokenizer = registry.make(vocabulary, settings)
    for texts in ((TEXTS,), (TEXTS[:-1], TEXTS[1:])):
        found = theirs.encode_batch(list(zip(*texts, strict=True)) if len(texts) > 1 else TEXTS)
        ours = tokenizer(*texts)
        for row, encoded in enumerate(found):
            count = int(ours["input_mask"][row].numpy().sum())
            assert ours["input_word_ids"][row, :count].numpy().tolist() == encoded.ids
            assert ours["input_type_ids"][row, :count].numpy().tolist() == encoded.type_ids
    again = weights.read(f"{tmp_path}/hf")
    assert again.vocabulary == vocabulary
    assert again.resolved_settings() == model.resolved_settings()


@pytest.mark.parametrize(
    ("stated", "typed", "warned"),
    [
        ({"tokenizer_class": "BertTokenizerFast"}, True, False),
        ({"tokenizer_class": "DistilBertTokenizer"}, False, False),
        ({"tokenizer_class": "TokenizersBackend"}, False, False),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, True, True),
        ({"tokenizer_class": "TokenizersBackend", "model_input_names": ["token_type_ids"]}, True, False),
        ({"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": []}, False, False),
    ],
)  # fmt: skip
def test_classes_decide_on_types_of_pairs(stated, typed, warned, tmp_path, caplog):
    """As transformers 5 has them; where version 4 had others, a warning says so."""
    vocabulary = _words(*SPECIAL_TOKENS)
    config = BertConfig.named("bert-debug", vocab_size=len(vocabulary))
    model = Bundle(config, make_bundle(config).weights, vocabulary)
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    path = tmp_path / "hf/tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | stated))
    again = weights.read(f"{tmp_path}/hf")
    assert again.resolved_settings().get("typed", True) is typed
    assert ("transformers 5 gives none" in caplog.text) is warned
    weights.write(again, f"{tmp_path}/back", Format.HUGGINGFACE)
    assert weights.read(f"{tmp_path}/back").resolved_settings() == again.resolved_settings()


def test_a_model_without_segments_has_no_types_in_transformers(tmp_path):
    vocabulary = _words(*SPECIAL_TOKENS)
    config = BertConfig.named("distilbert-debug", vocab_size=len(vocabulary))
    arrays = make_bundle(config, drop=(bundle.NEXT_SENTENCE, bundle.POOLER)).weights
    model = Bundle(config, arrays, vocabulary)
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    stated = json.loads((tmp_path / "hf/tokenizer_config.json").read_text())
    assert stated["model_input_names"] == ["input_ids", "attention_mask"]
    assert weights.read(f"{tmp_path}/hf").resolved_settings() == model.resolved_settings()


def test_prompts_that_transformers_would_end_are_warned_of(tmp_path, caplog):
    """A GPT-2 that was trained here has a vocabulary whose texts begin and end with a token."""
    vocabulary = _byte_bpe()
    config = BertConfig.named("gpt2-debug", vocab_size=len(vocabulary))
    model = random_bundle(config, vocabulary, [], 0, without=("next_sentence", "masked_lm"))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    assert "begin prompts with <s> and tokenize them with add_special_tokens=False" in caplog.text
    stated = json.loads((tmp_path / "hf/config.json").read_text())
    assert stated["bos_token_id"] == vocabulary.id_of("start") != stated["eos_token_id"]
    assert weights.read(f"{tmp_path}/hf").vocabulary == vocabulary


def test_texts_without_special_tokens_are_told(tmp_path, caplog):
    """transformers 5 writes a template of no special tokens where there was none."""
    vocabulary = _byte_bpe()
    config = BertConfig.named("roberta-debug", vocab_size=len(vocabulary))
    model = random_bundle(config, vocabulary, [], 0, without=("next_sentence",))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    path = tmp_path / "hf/tokenizer.json"
    second = {"Sequence": {"id": "B", "type_id": 1}}
    single = [{"Sequence": {"id": "A", "type_id": 0}}]
    plain = {"type": "TemplateProcessing", "single": single, "special_tokens": {}}
    for step in (None, plain | {"pair": [*single, second]}):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": step}))
        caplog.clear()
        assert weights.read(f"{tmp_path}/hf").resolved_settings()["framed"] is False
        assert "states framed False, which is followed" in caplog.text
