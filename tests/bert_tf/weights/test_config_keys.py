"""Every key of the configurations of Hugging Face is followed, without effect, or refused by name.

The configurations are of the form in which transformers writes them.
"""

import json
import re
from pathlib import Path

import pytest

from bert_tf.models.config import BertConfig
from bert_tf.weights.huggingface import config as configs
from bert_tf.weights.huggingface import sentence_transformers, tokenizers
from bert_tf.weights.huggingface.keys import Keys
from pipelines.common.errors import InputError
from pipelines.tokenizers.bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary

BERT = {
    "vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 40, "type_vocab_size": 2,
    "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0, "bos_token_id": None,
    "eos_token_id": None, "use_cache": True, "classifier_dropout": None, "is_decoder": False,
    "add_cross_attention": False, "tie_word_embeddings": True,
}  # fmt: skip
SUMMARY = {"summary_type": "cls_index", "summary_use_proj": True, "summary_activation": None,
           "summary_proj_to_labels": True, "summary_first_dropout": 0.1}  # fmt: skip
GPT = {
    "vocab_size": 90, "n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 4, "afn": "gelu",
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02, "pad_token_id": None, "tie_word_embeddings": True, **SUMMARY,
}  # fmt: skip
OF_EVERY_CLASS = {
    "architectures": None, "chunk_size_feed_forward": 0, "dtype": "float32", "id2label": None,
    "is_encoder_decoder": False, "label2id": None, "output_hidden_states": False,
    "problem_type": None, "return_dict": True, "transformers_version": "5.23.0",
    "position_embedding_type": "absolute", "auto_map": None, "quantization_config": None,
    "pruned_heads": {}, "torch_dtype": "float32", "_name_or_path": "",
}  # fmt: skip
MODERN_LAYERS = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
MODERN_ROPE = {
    "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
}
PUBLISHED = {
    "Bert": BERT,
    "Roberta": BERT | {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    "MPNet": {key: BERT[key] for key in BERT if key not in ("type_vocab_size", "is_decoder")}
    | {"relative_attention_num_buckets": 32, "pad_token_id": 1, "bos_token_id": 0,
       "eos_token_id": 2, "max_position_embeddings": 42, "classifier_dropout": 0.1},
    "ModernBert": {
        "vocab_size": 90, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
        "num_attention_heads": 4, "hidden_activation": "gelu", "max_position_embeddings": 8192,
        "initializer_range": 0.02, "initializer_cutoff_factor": 2.0, "norm_eps": 1e-05,
        "norm_bias": False, "pad_token_id": 50283, "eos_token_id": 50282, "bos_token_id": 50281,
        "cls_token_id": 50281, "sep_token_id": 50282, "attention_bias": False,
        "attention_dropout": 0.0, "layer_types": MODERN_LAYERS, "local_attention": 128,
        "rope_parameters": MODERN_ROPE, "global_rope_theta": 1000.0, "local_rope_theta": 10.0,
        "global_attn_every_n_layers": 3, "embedding_dropout": 0.0, "mlp_bias": False,
        "mlp_dropout": 0.0, "decoder_bias": True, "classifier_pooling": "cls",
        "classifier_dropout": 0.0, "classifier_bias": False, "classifier_activation": "gelu",
        "deterministic_flash_attn": False, "sparse_prediction": False, "layer_norm_eps": 1e-5,
        "sparse_pred_ignore_index": -100, "tie_word_embeddings": True, "rope_scaling": None,
        "reference_compile": None, "repad_logits_with_grad": False,
    },
    "NomicBert": {key: BERT[key] for key in BERT if key != "is_decoder"}
    | {"hidden_act": "silu", "head_dim": 8, "rope_theta": 1000.0, "rope_scaling": None,
       "partial_rotary_factor": 1.0,
       "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}},
    "DistilBert": {
        "vocab_size": 90, "max_position_embeddings": 40, "sinusoidal_pos_embds": False,
        "n_layers": 2, "n_heads": 4, "dim": 32, "hidden_dim": 64, "dropout": 0.1,
        "attention_dropout": 0.1, "activation": "gelu", "initializer_range": 0.02,
        "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "pad_token_id": 0,
        "tie_word_embeddings": True, "tie_weights_": True,
    },
    "Albert": {key: BERT[key] for key in BERT if key not in ("classifier_dropout", "is_decoder")}
    | {"embedding_size": 16, "num_hidden_groups": 1, "inner_group_num": 1,
       "classifier_dropout_prob": 0.1, "bos_token_id": 2, "eos_token_id": 3, "gap_size": 0,
       "down_scale_factor": 1, "net_structure_type": 0, "num_memory_blocks": 0},
    "Electra": BERT | SUMMARY
    | {"embedding_size": 16, "summary_type": "first", "summary_activation": "gelu",
       "summary_last_dropout": 0.1, "summary_proj_to_labels": False},
    "OpenAIGPT": GPT | {"n_ctx": 40, "n_special": 0, "predict_special_tokens": True},
    "GPT2": {key: GPT[key] for key in GPT if key != "afn"}
    | {"activation_function": "gelu_new", "n_inner": None, "scale_attn_weights": True,
       "use_cache": True, "bos_token_id": 50256, "eos_token_id": 50256, "n_ctx": 40,
       "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False,
       "add_cross_attention": False},
    "Bart": {
        "vocab_size": 90, "max_position_embeddings": 40, "d_model": 32, "dropout": 0.1,
        "encoder_layers": 2, "encoder_ffn_dim": 64, "encoder_attention_heads": 4,
        "decoder_layers": 2, "decoder_ffn_dim": 64, "decoder_attention_heads": 4,
        "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "activation_function": "gelu",
        "attention_dropout": 0.0, "activation_dropout": 0.0, "init_std": 0.02,
        "classifier_dropout": 0.0, "scale_embedding": False, "use_cache": True, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "is_encoder_decoder": True,
        "decoder_start_token_id": 2, "forced_eos_token_id": 2, "is_decoder": False,
        "tie_word_embeddings": True, "normalize_before": False, "add_final_layer_norm": False,
        "add_bias_logits": False, "normalize_embedding": True, "static_position_embeddings": False,
    },
}  # fmt: skip
CLASSES = {
    name: [f"{name}Model", f"{name}For{'Multiple' if name == 'Electra' else 'Masked'}Choice"]
    for name in PUBLISHED
}
CLASSES |= {
    "Electra": ["ElectraModel", "ElectraForMaskedLM", "ElectraForMultipleChoice"],
    "OpenAIGPT": ["OpenAIGPTModel", "OpenAIGPTLMHeadModel", "OpenAIGPTDoubleHeadsModel"],
    "GPT2": ["GPT2Model", "GPT2LMHeadModel", "GPT2DoubleHeadsModel"],
    "Bart": ["BartModel", "BartForConditionalGeneration", "BartForSequenceClassification"],
    "ModernBert": ["ModernBertModel", "ModernBertForMaskedLM", "ModernBertForMultipleChoice"],
    "Bert": ["BertModel", "BertForMaskedLM", "BertForSequenceClassification"],
}
# Changes no output of transformers 5 in evaluation, with the inputs of its tokenizer.
INERT = {
    *("_name_or_path", "bos_token_id", "chunk_size_feed_forward", "dtype", "label2id"),
    *("output_hidden_states", "pad_token_id", "return_dict", "torch_dtype", "use_cache"),
    *("transformers_version", "qa_dropout", "summary_last_dropout", "summary_first_dropout"),
    *("activation_dropout", "encoder_layerdrop", "decoder_layerdrop", "embd_pdrop"),
    *("sinusoidal_pos_embds", "tie_weights_", "gap_size", "down_scale_factor", "n_ctx"),
    *("net_structure_type", "num_memory_blocks", "n_special", "predict_special_tokens"),
    *("reorder_and_upcast_attn", "eos_token_id", "cls_token_id", "sep_token_id"),
    *("initializer_cutoff_factor", "mlp_dropout", "deterministic_flash_attn", "sparse_prediction"),
    *("sparse_pred_ignore_index", "reference_compile", "repad_logits_with_grad"),
}
NOT_OF_MODERNBERT = {"layer_norm_eps"}  # in published files; its name is norm_eps
FOLLOWED_ALONE = {("Roberta", "pad_token_id"), ("MPNet", "pad_token_id"), ("Bart", "eos_token_id")}
# Followed by what reads the head, or the settings of generation, and tested there.
ELSEWHERE = {"architectures", "id2label", "problem_type", "forced_eos_token_id"}
OF_A_SUMMARY = {"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"}


def of(name, architecture):
    family = {"OpenAIGPT": "openai-gpt", "NomicBert": "nomic_bert"}.get(name, name.lower())
    return OF_EVERY_CLASS | PUBLISHED[name] | {
        "model_type": family, "architectures": [architecture]
    }  # fmt: skip


def changed(key, value):
    """Another value of the same type, which makes a valid model where that is possible."""
    if isinstance(value, bool):
        return not value
    if key in ("hidden_act", "activation", "afn", "activation_function", "hidden_activation"):
        return "relu"
    if isinstance(value, int):
        return value * 2 if value > 3 else value + 1
    if isinstance(value, float):
        return value + 0.25
    if isinstance(value, dict):
        return {"0": [1]}
    if isinstance(value, list):
        return value[::-1][1:]
    return "tanh" if key == "summary_activation" else f"{value or ''}x"


@pytest.mark.parametrize(
    ("name", "architecture"), [(name, each) for name in PUBLISHED for each in CLASSES[name]]
)
def test_every_key_is_followed_or_refused_by_name(name, architecture, caplog):
    config = of(name, architecture)
    _, expected = configs.read_config(config, "config.json")
    assert "unknown" not in caplog.text, caplog.text
    chooses = architecture.endswith(("MultipleChoice", "DoubleHeadsModel"))
    untied = architecture.endswith(("Classification", "Choice", "DoubleHeadsModel"))
    untied |= architecture == CLASSES[name][0] != "BartModel"
    for key, value in config.items():
        if key in ELSEWHERE:
            continue
        inert = key in INERT and (name, key) not in FOLLOWED_ALONE
        inert |= name == "ModernBert" and key in NOT_OF_MODERNBERT
        inert |= key == "decoder_bias" and not architecture.endswith("ForMaskedLM")
        harmless = inert or (key in OF_A_SUMMARY and not chooses)
        harmless |= key == "tie_word_embeddings" and untied
        new = {"classifier_dropout": 0.35, "n_inner": 50}.get(key) or changed(key, value)
        try:
            _, found = configs.read_config({**config, key: new}, "config.json")
        except InputError as error:
            assert re.search(rf"\b{key}\b", str(error)), (key, str(error))
            continue
        assert harmless or found != expected, f"{key}={new!r} is ignored"


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_key_that_nobody_knows_is_named(name, caplog):
    config = of(name, CLASSES[name][0])
    configs.read_config(config | {"use_my_attention": True, "alibi": 1}, "config.json")
    assert "config.json: unknown keys have no effect: alibi, use_my_attention." in caplog.text


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("Bert", {"auto_map": {"AutoModel": "modeling_x.XModel"}}, "auto_map is {'AutoModel'"),
        ("Electra", {"is_decoder": True}, "is_decoder is True; only False is supported"),
        ("DistilBert", {"hidden_size": 64}, "hidden_size is 64, but dim, which means the same, 32"),
        ("GPT2", {"n_positions": "x"}, "n_positions is 'x'; it must be a whole"),
        ("GPT2", {"n_layer": None, "num_hidden_layers": "x"}, "num_hidden_layers is 'x'; it must"),
        ("Bert", {"architectures": ["X"], "tie_word_embeddings": False}, "tie_word_embeddings is"),
        ("Bart", {"eos_token_id": 7}, "decoder_start_token_id is 2, but eos_token_id 7"),
        ("ModernBert", {"global_rope_theta": 7.0}, "global_rope_theta is 7.0, but rope_parameters"),
        (
            "ModernBert",
            {"global_attn_every_n_layers": 2},
            "layer_types is .* does not match .*n_layers 2",
        ),
        (
            "ModernBert",
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "rope_parameters: full_attention: the rope_type is 'yarn', not 'default'",
        ),
        (
            "ModernBert",
            {"rope_parameters": {"full_attention": {"factor": 2.0}}},
            "rope_parameters: full_attention: has factor, which is not supported",
        ),
        ("ModernBert", {"layer_types": MODERN_LAYERS[1:]}, "layer_types is "),
        ("ModernBert", {"classifier_activation": "relu"}, "classifier_activation is 'relu', but"),
        ("ModernBert", {"norm_bias": True}, "norm_bias is True; only False is supported"),
        ("Bert", {"per_layer_config": {"0": {}}}, "per_layer_config is .*; it is not supported"),
        ("NomicBert", {"rope_theta": 7.0}, "rope_theta is 7.0, but rope_parameters has 1000.0"),
    ],
)
def test_what_is_refused_is_explained(name, changes, message):
    with pytest.raises(InputError, match=rf"config\.json: {message}"):
        configs.read_config(of(name, CLASSES[name][0]) | changes, "config.json")


def test_both_forms_of_a_modernbert_are_one():
    new = of("ModernBert", "ModernBertModel")
    old = {
        key: value for key, value in new.items() if key not in ("layer_types", "rope_parameters")
    }
    for key in ("global_rope_theta", "local_rope_theta", "global_attn_every_n_layers"):
        del new[key]
    (_, first), (_, second) = (configs.read_config(form, "config.json") for form in (old, new))
    assert first == second
    assert (first.rope_theta, first.local_rope_theta, first.global_every) == (1000.0, 10.0, 3)
    neither = {key: value for key, value in old.items() if key in new}
    _, usual = configs.read_config(neither, "config.json")
    assert (usual.rope_theta, usual.local_rope_theta, usual.global_every) == (160_000, 10_000, 3)


def test_the_base_of_a_nomic_bert_may_be_a_key_of_its_own():
    config = of("NomicBert", "NomicBertModel") | {"rope_theta": 70.0, "rope_parameters": None}
    assert configs.read_config(config, "config.json")[1].rope_theta == 70.0
    del config["rope_theta"]
    assert configs.read_config(config, "config.json")[1].rope_theta == 1000.0


def test_names_that_transformers_maps_are_followed():
    alone = {"hidden_size": 48, "num_hidden_layers": 3, "model_type": "distilbert"}
    _, config = configs.read_config(alone, "config.json")
    assert (config.hidden_size, config.num_hidden_layers) == (48, 3)
    # Keys of BERT that a DistilBERT does not have are not its own.
    _, config = configs.read_config(alone | {"intermediate_size": 99}, "config.json")
    assert config.intermediate_size == 3072


def test_the_table_of_the_guide_is_complete():
    guide = (Path(__file__).parents[3] / "docs/guides/weights.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", guide, re.MULTILINE)
    stated = {name: set(re.findall(r"`(\w+)`", keys)) for name, keys in rows}
    assert stated == {name: set(each.followed) for name, each in configs.FAMILIES.items()}


def _texts(*tokens):
    return dict(
        zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], tokens, strict=True)
    )


# tokenizer_config.json as transformers writes it: of every class, and the others of each.
TOKENIZER = {
    "model_max_length": 512, "padding_side": "right", "truncation_side": "right", "auto_map": None,
    "clean_up_tokenization_spaces": True, "split_special_tokens": False, "name_or_path": "x",
    "added_tokens_decoder": {}, "additional_special_tokens": [], "backend": "tokenizers",
    "model_input_names": ["input_ids", "token_type_ids"], "pad_to_multiple_of": None,
    "processor_class": None,
}  # fmt: skip
TOKENIZERS = {
    "BertTokenizer": _texts(*SPECIAL_TOKENS)
    | {"do_lower_case": True, "do_basic_tokenize": True, "never_split": None,
       "tokenize_chinese_chars": True, "strip_accents": None, "wordpieces_prefix": "##"},
    "RobertaTokenizer": _texts("<pad>", "<unk>", "<s>", "</s>", "<mask>")
    | {"add_prefix_space": False, "bos_token": "<s>", "eos_token": "</s>", "errors": "replace",
       "trim_offsets": True, "add_bos_token": False},
    "AlbertTokenizer": _texts("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    | {"do_lower_case": True, "keep_accents": False, "remove_space": True, "sp_model_kwargs": {},
       "bos_token": "[CLS]", "eos_token": "[SEP]"},
}  # fmt: skip
# Change no id: the length is that of tasks, and the unknown token of bytes is never used.
INERT_OF_TOKENIZERS = TOKENIZER.keys() - {"auto_map", "truncation_side"}
INERT_OF_TOKENIZERS |= {"errors", "trim_offsets", "bos_token", "eos_token"}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_key_of_a_tokenizer_is_followed_or_refused_by_name(name, tmp_path):
    counts = {b"hello": 9, b"world": 9, b"deja": 9, b"vu": 9}
    kind, vocabulary = {
        "BertTokenizer": ("wordpiece", WordPieceVocabulary((*SPECIAL_TOKENS, "hello"))),
        "RobertaTokenizer": ("byte_bpe", ByteBPEVocabulary.learn(counts, 270)),
        "AlbertTokenizer": ("sentencepiece", SentencePieceVocabulary.learn(counts, 40)),
    }[name]
    vocabulary.save(str(tmp_path))
    for file in tmp_path.glob("tokenizer*.json"):
        file.unlink()

    def read(values):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(values))
        return tokenizers.read(kind, str(tmp_path), BertConfig(vocab_size=len(vocabulary)))

    stated = TOKENIZER | TOKENIZERS[name] | {"tokenizer_class": name}
    found, settings = read(stated)
    assert found == vocabulary
    for key, value in stated.items():
        new = {"auto_map": {"AutoTokenizer": ["x.Y", None]}, "strip_accents": True,
               "added_tokens_decoder": {"999": {"content": "x"}}, "never_split": ["x"],
               "sp_model_kwargs": {"enable_sampling": True}}  # fmt: skip
        try:
            _, others = read({**stated, key: new.get(key, changed(key, value))})
        except InputError as error:
            assert re.search(rf"\b{key}\b", str(error)), (key, str(error))
            continue
        inert = key in INERT_OF_TOKENIZERS or (key, kind) == ("unk_token", "byte_bpe")
        inert &= (key, kind) != ("model_input_names", "wordpiece")
        assert inert == (others == settings), f"{key} is ignored"


TEXT = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
# Files of sentence-transformers 2 to 6, with the keys that are read or change no vector.
SENTENCE_FILES = [
    ("_MODULE_KEYS", {"idx": 0, "name": "0", "path": "", "type": "x"}, {"idx", "name"}),
    (
        "_LENGTH_KEYS",
        {"max_seq_length": 256, "do_lower_case": False, "transformer_task": "feature-extraction",
         "modality_config": TEXT, "module_output_name": "token_embeddings", "unpad_inputs": True,
         "model_args": {}, "tokenizer_args": {}, "query_length": None, "processing_kwargs": {}},
        {"unpad_inputs"},
    ),
    (
        "_POOLING_KEYS",
        {"word_embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True},
        {"word_embedding_dimension"},
    ),
    (
        "_NORMALIZE_KEYS",
        {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"},
        set(),
    ),
    (
        "_CONFIG_KEYS",
        {"__version__": {"pytorch": "2.9"}, "prompts": {}, "default_prompt_name": None,
         "similarity_fn_name": "cosine", "truncate_dim": None, "model_type": "SentenceTransformer"},
        {"__version__"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "harmless"), SENTENCE_FILES)
def test_keys_of_sentence_transformers_are_followed_or_refused(name, values, harmless, caplog):
    keys = getattr(sentence_transformers, name)
    keys.check(values, "x")
    assert "unknown" not in caplog.text
    for key, value in values.items():
        if key in keys.followed | harmless:
            continue
        with pytest.raises(InputError, match=rf"x: {key} is "):
            keys.check(values | {key: changed(key, value)}, "x")
    assert harmless <= keys.harmless
    keys.check(values | {"mine": 1}, "x")
    assert "x: unknown keys have no effect: mine." in caplog.text


def test_null_is_false():
    keys = Keys(frozenset(), only={"a": (False,), "b": (True,), "c": (None,)})
    keys.check({"a": None, "b": True, "c": False}, "x")
    with pytest.raises(InputError, match="x: b is None; only True is supported"):
        keys.check({"b": None}, "x")
    with pytest.raises(InputError, match="x: c is 'gelu'; only null is supported"):
        keys.check({"c": "gelu"}, "x")
