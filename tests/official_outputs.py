"""Outputs of google-research/albert or electra for a TF 1 checkpoint; run by our Python.

  python -P official_outputs.py albert CLONE FOLDER IN.npz OUT.npz

The programs need TF 1's layers, which TensorFlow 2 has no more; the two that they use are defined
here.
"""

import json
import sys
import types

import numpy as np
import tensorflow.compat.v1 as tf


def dense(inputs, units, activation=None, name=None, kernel_initializer=None):
    with (
        tf.variable_scope(None, default_name=name or "dense")
        if not name
        else tf.variable_scope(name)
    ):
        kernel = tf.get_variable("kernel", [inputs.shape[-1], units])
        bias = tf.get_variable("bias", [units])
    outputs = tf.tensordot(inputs, kernel, 1) + bias
    return activation(outputs) if activation else outputs


def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope=None):
    with tf.variable_scope(scope, default_name="LayerNorm"):
        shape = [inputs.shape[-1]]
        gamma, beta = tf.get_variable("gamma", shape), tf.get_variable("beta", shape)
    mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
    return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def install():
    """Puts the missing layers where the programs look for them."""
    contrib = types.ModuleType("tensorflow.contrib")
    contrib.layers = types.ModuleType("tensorflow.contrib.layers")
    contrib.layers.layer_norm = layer_norm
    sys.modules |= {"tensorflow.contrib": contrib, "tensorflow.contrib.layers": contrib.layers}
    tf.layers = types.SimpleNamespace(dense=dense)


def albert(folder, inputs):
    import modeling

    config = modeling.AlbertConfig.from_json_file(f"{folder}/albert_config.json")
    model = modeling.AlbertModel(config, False, *inputs)
    return {"sequence": model.get_sequence_output(), "pooled": model.get_pooled_output()}


def electra(folder, inputs):
    from model import modeling

    with open(f"{folder}/bert_config.json", encoding="utf-8") as file:
        values = json.load(file)
    values["hidden_act"] = "gelu"  # theirs is exact
    config = modeling.BertConfig.from_dict(values)
    width = values.get("embedding_size") or values["hidden_size"]
    model = modeling.BertModel(config, False, *inputs, embedding_size=width, scope="electra")
    sequence = model.get_sequence_output()
    with tf.variable_scope("discriminator_predictions"):  # `_get_discriminator_output`
        hidden = dense(sequence, values["hidden_size"], modeling.get_activation("gelu"))
        logits = dense(hidden, 1)[..., 0]
    return {"sequence": sequence, "replaced": logits}


def main():
    program, clone, folder, source, target = sys.argv[1:]
    sys.path.insert(0, clone)
    install()
    with np.load(source) as arrays, tf.Graph().as_default(), tf.Session() as session:
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = [tf.constant(arrays[name], tf.int32) for name in names]
        outputs = {"albert": albert, "electra": electra}[program](folder, inputs)
        variables = tf.global_variables()
        tf.train.Saver(variables).restore(session, f"{folder}/bert_model.ckpt")
        np.savez(target, **session.run(outputs))


if __name__ == "__main__":
    main()
