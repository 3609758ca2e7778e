"""The formulas of the encoder in NumPy, float32, by the weights of a model."""

import math

import numpy as np


def _norm(x, layer):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    standard = (x - mean) / np.sqrt(variance + 1e-12)
    return standard * layer.gamma.numpy() + np.asarray(layer.beta)


def _dense(x, layer):
    return x @ layer.kernel.numpy().astype(np.float64) + np.asarray(layer.bias)


def _gelu(x, exact):
    if exact:
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _positions(ids, offset):
    """Rows of the table; with an offset, those of transformers' RoBERTa."""
    if not offset:
        return np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    mask = (ids != offset - 1).astype(int)
    return np.cumsum(mask, 1) * mask + offset - 1


def scores_by_distance(encoder, length):
    """Raffel et al. 2020, section 2.1: 32 rows, up to a distance of 128."""
    if not encoder.config.relative_positions:
        return 0.0
    distance = np.arange(length) - np.arange(length)[:, None]
    far = np.maximum(abs(distance), 8)
    row = np.minimum(8 + np.floor(np.log(far / 8) / np.log(128 / 8) * 8 + 1e-9), 15).astype(int)
    row = np.where(abs(distance) < 8, abs(distance), row) + 16 * (distance > 0)
    return encoder.embeddings.relative_positions.numpy()[row].transpose(2, 0, 1)


def _rotated(x, theta):
    """Complex numbers of both halves of [..., length, size], turned by the position."""
    size = x.shape[-1]
    speed = theta ** (-2 * np.arange(size // 2) / size)
    turn = np.exp(1j * np.arange(x.shape[-2])[:, None] * speed)
    x = (x[..., : size // 2] + 1j * x[..., size // 2 :]) * turn
    return np.concatenate([x.real, x.imag], -1)


def outputs(encoder, batch, causal=False):
    """Section 3.1 of Vaswani et al. and section 3 of Devlin et al., written out."""
    config = encoder.config
    ids, mask, types = (
        batch[name].numpy() for name in ("input_word_ids", "input_mask", "input_type_ids")
    )
    tables = encoder.embeddings
    length, heads = ids.shape[1], config.num_attention_heads
    x = tables.word.numpy().astype(np.float64)[ids]
    if not config.rope_theta:
        x += tables.position.numpy()[_positions(ids, config.position_offset)]
    x += tables.token_type.numpy()[types] if config.type_vocab_size else 0
    x = _norm(x, tables.norm) if config.embedding_norm else x
    x = embedded = _dense(x, tables.projection) if config.embedding_size else x
    allowed = np.broadcast_to(mask[:, None, None, :] > 0, (len(ids), heads, length, length))
    if causal:
        allowed = allowed & np.tril(np.ones((length, length), bool))
    for index in range(config.num_hidden_layers):
        block = encoder.blocks[0 if config.shared_layers else index]
        before = _norm(x, block.attention_norm) if config.pre_norm and block.attention_norm else x
        q, k, v = (
            part.reshape(len(ids), length, heads, -1).transpose(0, 2, 1, 3)
            for part in np.split(_dense(before, block.attention.qkv), 3, -1)
        )
        local = config.local_attention > 0 and index % config.global_every > 0
        if config.rope_theta:
            theta = config.local_rope_theta if local else config.rope_theta
            q, k = _rotated(q, theta), _rotated(k, theta)
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
        scores += scores_by_distance(encoder, length)
        distance = abs(np.arange(length) - np.arange(length)[:, None])
        seen = allowed & ((distance <= config.local_attention // 2) | (not local))
        context = _softmax(np.where(seen, scores, -1e9)) @ v
        context = context.transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + _dense(context, block.attention.output_dense)
        x = x if config.pre_norm else _norm(x, block.attention_norm)
        before = _norm(x, block.output_norm) if config.pre_norm else x
        inner, *gate = np.split(
            _dense(before, block.feed_forward.intermediate), 1 + config.gated, -1
        )
        inner = _gelu(inner, config.hidden_act == "gelu_erf") * (gate[0] if gate else 1.0)
        x = x + _dense(inner, block.feed_forward.output_dense)
        x = x if config.pre_norm else _norm(x, block.output_norm)
    x = _norm(x, encoder.final_norm) if config.pre_norm else x
    pool = {"tanh": np.tanh, "relu": lambda v: np.maximum(v, 0), None: lambda v: v}
    # The token that has seen all others.
    seen = x[np.arange(len(x)), mask.sum(1) - 1] if encoder.config.pools_last else x[:, 0]
    if config.pool_mean:
        seen = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    pooled = pool[config.pooler_act](_dense(seen, encoder.pooler) if config.pooler_act else seen)
    return embedded, x, pooled
