"""Models of sentence-transformers: how they make vectors, wherever they are used."""

import dataclasses
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from bert_tf import tasks, weights
from bert_tf.export import portable, saved_model, sources
from bert_tf.finetuning import sweep
from bert_tf.models.config import BertConfig
from bert_tf.models.head_config import Pooling
from bert_tf.serving.plan import Precision
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.reduced_precision import ScoreCheck
from bert_tf.vectors import vector_file
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.formats import Format
from bert_tf.weights.huggingface import sentence_transformers
from pipelines.common.errors import InputError
from pipelines.tokenizers.bpe_vocabulary import BYTE_LETTERS, SPECIAL_TOKENS, ByteBPEVocabulary
from tests import peers
from tests.bert_tf import labelled_data
from tests.bert_tf.vectors.encoded import TEXTS, make
from tests.bert_tf.vectors.sentence_models import DENSE, PROMPTED, change, write_pairs


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({"pooling": "cls_token"}, {"pooling": "cls"}),
        ({"pooling": "max", "length": 9, "new": True}, {"pooling": "max", "max_seq_length": 9}),
        ({"pooling": "max_tokens", "length": 8}, {"pooling": "max", "max_seq_length": 8}),
        (
            {"modules": ("Transformer", "Pooling", "Normalize"), "length": 10_000},
            {"pooling": "mean", "normalize": True},
        ),
    ],
)
def test_a_model_of_sentence_transformers_has_its_own_pooling(sentence_model, arguments, settings):
    folder = sentence_model(**arguments)
    text = [" ".join(TEXTS)]
    np.testing.assert_array_equal(make(folder)(text), make(folder, **settings)(text))
    assert make(folder).settings == make(folder, **settings).settings
    chosen = {"pooling": "max", "max_seq_length": 9}
    assert make(folder, **chosen).settings.normalize is False
    assert make(folder, max_seq_length=9).max_seq_length == 9
    assert make(folder, normalize=False).settings.normalize is False


def test_the_encoder_may_be_in_a_folder_of_its_own(sentence_model, tmp_path, monkeypatch):
    folder = sentence_model("cls_token")
    inner = tmp_path / "model/0_Transformer"
    shutil.copytree(folder, inner)
    for name in ("modules.json", "1_Pooling"):
        shutil.move(inner / name, inner.parent / name)
    modules = json.loads((inner.parent / "modules.json").read_text())
    modules[0]["path"] = inner.name
    (inner.parent / "modules.json").write_text(json.dumps(modules))
    wanted = make(folder)(TEXTS)
    for place in (inner, inner.parent):
        np.testing.assert_array_equal(make(str(place))(TEXTS), wanted)
    monkeypatch.chdir(inner.parent)
    np.testing.assert_array_equal(make(inner.name)(TEXTS), wanted)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": 3}, "config.json: .*pooling_mode"),
        ("sentence_bert_config.json", {"max_seq_length": [8]}, "config.json: .*max_seq_length"),
        ("sentence_bert_config.json", {"max_seq_length": 5}, "config.json: cuts texts to 5 tok"),
        ("modules.json", {}, "modules.json: "),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": 1}, "cls_token is 1; it must be true"),
    ],
)
def test_damaged_files_are_reported(sentence_model, name, content, message):
    folder = sentence_model()
    with open(f"{folder}/{name}", "w") as file:
        json.dump(content, file)
    with pytest.raises(InputError, match=message):
        make(folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"modules": ("Transformer", "Pooling", "CNN")}, "modules.json: .*Pooling, CNN;"),
        ({"modules": ("Transformer", "Pooling", "Normalize", "Dense")}, "Normalize, Dense;"),
        ({"others": {"default_prompt_name": "other"}}, "is 'other'; the prompts are query"),
        ({"others": {"similarity_fn_name": "euclidean"}}, "is 'euclidean'; only cosine and dot"),
        ({"others": {"truncate_dim": 0}}, "config_sentence_transformers.json: .*truncate_dim"),
        ({"others": {"model_type": "SparseEncoder"}}, "model_type is 'SparseEncoder'; only"),
        ({"pooling": "lasttoken"}, "config.json: pools by pooling_mode_lasttoken; one of"),
    ],
)
def test_other_models_of_sentence_transformers_are_reported(sentence_model, arguments, message):
    folder = sentence_model(**arguments)
    with pytest.raises(InputError, match=f"(?i){message}.*choose --pooling"):
        make(folder)
    assert make(folder, pooling="mean")(["a text"]).shape == (1, 32)


def test_code_of_the_folder_is_refused(sentence_model):
    folder = sentence_model()
    modules = json.loads(pathlib.Path(f"{folder}/modules.json").read_text())
    modules[0]["type"] = "custom_st.Transformer"
    pathlib.Path(f"{folder}/modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="custom_st.Transformer is code of the folder's own"):
        make(folder)


# Prints the vectors that sentence-transformers makes with the models of some folders.
_PEER = """
import json, sys
from sentence_transformers import SentenceTransformer
texts = json.loads(sys.argv[1])
found = []
for folder, options in json.loads(sys.argv[2]):
    model = SentenceTransformer(folder)
    vectors = model.encode(texts, **options)
    found.append([vectors.tolist(), model.similarity(vectors, vectors).tolist()])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_vectors_are_those_of_sentence_transformers(sentence_model, tmp_path):
    python = peers.python("sentence-transformers")
    made = [
        sentence_model("cls_token", ("Transformer", "Pooling", "Normalize")),
        sentence_model("max_tokens", length=8),
        sentence_model("mean", length=9, new=True),
        sentence_model("mean_tokens", DENSE, others=PROMPTED | {"similarity_fn_name": "dot"}),
    ]
    weights.write(weights.read(made[-1]), f"{tmp_path}/again", Format.HUGGINGFACE)
    again = f"{tmp_path}/again"
    asked = [(place, {}) for place in (*made, again)]
    asked += [(place, {"prompt_name": "query"}) for place in (made[-1], again)]
    asked += [(made[0], {"truncate_dim": 7, "normalize_embeddings": True})]
    asked += [(place, {"truncate_dim": 7}) for place in (made[1], again)]
    wanted = json.loads(peers.output(python, "-c", _PEER, json.dumps(TEXTS), json.dumps(asked)))
    for (folder, options), (vectors, similarities) in zip(asked, wanted, strict=True):
        dimensions = options.get("truncate_dim")
        embedder = make(folder, prompt=options.get("prompt_name"), truncate_dim=dimensions)
        found = embedder(TEXTS)
        np.testing.assert_allclose(found, vectors, atol=1e-5)
        own = vector_file.compared(found, embedder.settings.similarity)
        np.testing.assert_allclose(own @ own.T, similarities, atol=1e-5)


@pytest.mark.parametrize("name", ["roberta", "camembert", "xlm-roberta"])
def test_files_of_older_versions_are_read(sentence_model, name):
    folder = sentence_model()
    change(f"{folder}/sentence_{name}_config.json", max_seq_length=9)
    change(f"{folder}/1_Pooling/config.json", pooling_mode_mean_tokens=False)  # it is the default
    found = make(folder).settings
    assert (found.pooling, found.max_seq_length) == ("mean", 9)


def test_lower_case_that_the_tokenizer_does_not_make_is_reported(sentence_model):
    folder = sentence_model()
    change(f"{folder}/sentence_bert_config.json", do_lower_case=True)
    assert make(folder)(["a text"]).shape == (1, 32)  # the tokenizer does it, too
    change(f"{folder}/tokenizer_config.json", do_lower_case=False)
    with pytest.raises(InputError, match="sentence_bert_config.json: do_lower_case makes texts"):
        make(folder)


@pytest.mark.parametrize("version", ["2.0.0", "5.3.0", "5.4.0", "6.2.0", None])
def test_byte_level_texts_are_stripped_as_the_version_did(tmp_path, version):
    """Versions from 5.4 on do not; of WordPiece it makes no difference."""
    vocabulary = ByteBPEVocabulary((*SPECIAL_TOKENS, *BYTE_LETTERS), ())
    model = Bundle(BertConfig(), {}, vocabulary, None, (), str(tmp_path))
    if version:
        values = {"__version__": {"sentence_transformers": version, "pytorch": "2.0"}}
        (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(values))
    tokenizer = sentence_transformers.with_stripping(model).tokenizer()
    texts = [" a b\n", "\u3000a b\x1f\x85", "a b", "\t", ""]
    found = tokenizer.tokenize(texts).to_list()
    plain = model.tokenizer()
    if version not in ("2.0.0", "5.3.0"):
        assert found == plain.tokenize(texts).to_list()
        return
    assert found == plain.tokenize([text.strip() for text in texts]).to_list()
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == found
    for text, first, last in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        left = len(text.encode()) - len(text.lstrip().encode())
        assert (first, last) == (
            ([left, left + 1, left + 2], [left + 1, left + 2, left + 3])
            if "a" in text
            else ([], [])
        )


MADE = [
    ({"modules": DENSE}, (Pooling.MEAN, False, 48)),
    ({"pooling": "cls_token", "modules": (*DENSE, "Normalize")}, (Pooling.CLS, True, 48)),
    ({"pooling": "cls_token", "length": 9}, (Pooling.CLS, False, 9)),
    ({"pooling": "max", "modules": ("Transformer", "Pooling", "Normalize"), "new": True}, (Pooling.MAX, True, 48)),
]  # fmt: skip


@pytest.mark.more_cases
@pytest.mark.parametrize(("arguments", "trained"), MADE)
@pytest.mark.parametrize("target", [Format.BERT_TF, Format.HUGGINGFACE, Format.TF1])
def test_converted_models_make_the_same_vectors(
    sentence_model, arguments, trained, target, tmp_path
):
    folder, again = sentence_model(**arguments), f"{tmp_path}/again"
    bundle = weights.read(folder)
    if target == Format.TF1:  # it has one kind of gelu
        config = dataclasses.replace(bundle.config, hidden_act="gelu")
        bundle = dataclasses.replace(bundle, config=config)
    weights.write(bundle, again, target)
    task = tasks.load(bundle.task())
    assert tasks.load(weights.read(again).task()) == task
    assert (task.head.pooling, task.normalize, task.max_seq_length) == trained
    if target != Format.TF1:
        np.testing.assert_array_equal(make(again)(TEXTS), make(folder)(TEXTS))
    if target == Format.HUGGINGFACE:
        os.remove(f"{again}/tasks.json")  # what sentence-transformers reads says the same
        np.testing.assert_array_equal(make(again)(TEXTS), make(folder)(TEXTS))


def test_two_descriptions_that_differ_are_reported(sentence_model, tmp_path):
    again = f"{tmp_path}/again"
    weights.write(weights.read(sentence_model("cls_token")), again, Format.HUGGINGFACE)
    change(f"{again}/1_Pooling/config.json", pooling_mode_cls_token=False)
    with pytest.raises(InputError, match="tasks.json and the files of sentence-transformers"):
        weights.read(again)


@pytest.mark.more_cases
@pytest.mark.parametrize(("arguments", "trained"), MADE)
def test_exports_make_the_same_vectors(sentence_model, arguments, trained, tmp_path, engine_cache):
    folder = sentence_model(**arguments)
    saved_model.export(sources.find([f"embedding={folder}"]), f"{tmp_path}/export")
    wanted = make(folder)(TEXTS)
    for engine in ("tensorflow", "onnxruntime"):
        predictor = Predictor(f"{tmp_path}/export", engine=engine, cache=engine_cache)
        found = predictor("embedding", text=TEXTS)["embedding"]
        np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=engine)
        predictor.close()


def test_as_a_pretrained_model_it_has_all_other_signatures(sentence_model):
    (source,) = sources.find([f"pretrained={sentence_model('cls_token')}"])
    assert source.task is None and source.guesses_words


@pytest.mark.more
def test_training_goes_on_with_the_same_pooling(sentence_model, tmp_path):
    folder = sentence_model("cls_token")
    settings = {"epochs": 1.0, "batch_size": 4}
    _, output = labelled_data.tune(tmp_path, folder, "embedding", write_pairs, **settings)
    (described,) = weights.read(output).tasks
    assert described["head"]["pooling"] == "cls" and described["normalize"] is False
    assert make(output).settings.pooling == Pooling.CLS
    change(f"{folder}/1_Pooling/config.json", pooling_mode_cls_token=False)
    again = labelled_data.settings_of(folder, "embedding", f"{tmp_path}/data", **settings)
    with pytest.raises(InputError, match=r"other init: tasks\.embedding\.head"):
        sweep.finetune(again, output, f"{tmp_path}/cache", tensorboard=False)


@pytest.mark.more
def test_int8_is_scored_on_pairs(sentence_model, tmp_path):
    """An example of two texts is one row of a prediction, whatever a request has."""
    found = sources.find([f"embedding={sentence_model('cls_token')}"])
    dev = tmp_path / "dev.tsv"
    rows = [["one", "two", "0.1"], ["three", "three too", "0.9"], ["four", "one", "0.3"]]
    labelled_data.write_rows(dev, rows, ["text_a", "text_b", "score"])
    check = ScoreCheck(found, Precision.INT8, {"embedding": str(dev)}, 2.0, ["litert"])
    report = portable.export(found, f"{tmp_path}/files", ["litert"], check)
    assert report["embedding_ids.int8.tflite"]["score"]["metric"] == "score"


def test_a_model_that_cannot_be_reproduced_is_read_as_an_encoder(sentence_model, caplog):
    folder = sentence_model(modules=("Transformer", "Pooling", "CNN"))
    assert weights.read(folder).tasks == ()
    assert "Pooling, CNN; " in caplog.text and "The encoder alone is read." in caplog.text
