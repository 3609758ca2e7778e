"""Tokenizers of tokens that a test lists, ours and those of the tokenizers library."""

import io
import itertools
import json

import numpy as np
import pytest
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from pipelines.tokenizers import bpe_vocabulary
from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary

# The tokens before the pieces by class, and the number of pieces that they stand for.
FAIRSEQ = {
    "XLMRobertaTokenizer": (("<s>", "<pad>", "</s>", "<unk>"), 3),
    "CamembertTokenizer": (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1),
}
SENTENCES = [
    "Hello, world! The quick brown fox jumps over the lazy dog.", "Il était une fois à l'école, déjà vu.",
    "Die Größe der Häuser überrascht.", "Привет, мир! Москва большая.", "こんにちは世界。東京は大きい。",
    "안녕하세요 세계, 한국어 문장입니다.", "नमस्ते दुनिया", "مرحبا بالعالم", "In 1987, 12,345 of 2000 were ½ ①.",
    "ΑΣ Σ ΟΔΟΣ", "xin chào thế giới", "two spaces and lines (of) text", "don't we've it's",
] * 5  # fmt: skip


def check_running_text(tokenizer, texts):
    """Fails unless the ids of running text are those of `tokenize`."""
    ids, splits = tokenizer.tokenize_running_text(texts)
    expected = tokenizer.tokenize(texts)
    assert ids.dtype == np.int32 and splits.dtype == np.int64
    if not (
        np.array_equal(ids, expected.flat_values) and np.array_equal(splits, expected.row_splits)
    ):
        rows = zip(texts, itertools.pairwise(splits.tolist()), expected.to_list(), strict=True)
        pytest.fail(ascii([text for text, (a, b), row in rows if ids[a:b].tolist() != row][:10]))


def wordpiece(tokens, **settings):
    """The WordPiece tokenizer of some tokens."""
    return WordPieceTokenizer(WordPieceVocabulary(tuple(tokens)), **settings)


def framed_as_in_bert(made):
    """The step of a tokenizer of the library that puts [CLS] and [SEP] around one text or two."""
    return processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )


def library_wordpiece(tokens, **settings):
    """The same in the library, as transformers makes it; settings are of its normalizer."""
    ids = {token: index for index, token in enumerate(tokens)}
    made = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(**settings)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = framed_as_in_bert(made)
    made.add_special_tokens(list(SPECIAL_TOKENS))
    return made


def library_mpnet(tokens):
    """The same for MPNet."""
    made = library_wordpiece(tokens)
    special = [(token, tokens.index(token)) for token in ("</s>", "<s>")]
    made.post_processor = processors.RobertaProcessing(*special, add_prefix_space=False)
    made.add_special_tokens(["<s>", "<pad>", "</s>"])
    made.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    return made


def library_byte_bpe(vocabulary, add_prefix_space=False):
    """A byte-level BPE in the library, as transformers makes it of RoBERTa or GPT-2."""
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    made = tokenizers.Tokenizer(models.BPE(ids, list(vocabulary.merges)))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel()
    if vocabulary.form.framed:
        special = [(token, ids[token]) for token in ("</s>", "<s>")]
        made.post_processor = processors.RobertaProcessing(*special)
    made.add_special_tokens(list(dict.fromkeys(vocabulary.roles.values())))
    return made


def library_modernbert(texts=SENTENCES, size=600, spaces=24):
    """A tokenizer of ModernBERT's form in the library, learned from texts; with runs of spaces."""
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = bytes(c for c in range(0xF5) if c not in (0xC0, 0xC1))
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=["|||IP_ADDRESS|||", "<|padding|>"], show_progress=False,
        initial_alphabet=[*map(bpe_vocabulary.to_letters, map(bytes, zip(letters)))],
    )  # fmt: skip
    made.train_from_iterator(texts, trainer)
    made = tokenizers.Tokenizer.from_str(
        json.dumps(json.loads(made.to_str()) | {"added_tokens": []})
    )
    runs = [" " * count for count in range(spaces, 1, -1)]
    made.add_tokens(["|||IP_ADDRESS|||", *runs, "|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||"])
    special = ["<|padding|>", "<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    made.add_special_tokens(special)
    made.add_special_tokens([tokenizers.AddedToken("[MASK]", lstrip=True, special=True)])
    made.add_tokens([f"[unused{number}]" for number in range(3)])
    made.decoder = decoders.ByteLevel()
    made.post_processor = framed_as_in_bert(made)
    return made


def fairseq_model(size=400, sentences=SENTENCES, **settings):
    """A model of the form of XLM-R's and CamemBERT's, learned from sentences."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, vocab_size=size,
        hard_vocab_limit=False, minloglevel=2, num_threads=1, **settings,
    )  # fmt: skip
    return model.getvalue()


def library_fairseq(model, special=FAIRSEQ["XLMRobertaTokenizer"], splits=True):
    """The tokenizer of a published model in the library, as transformers makes it.

    Without `splits`, its steps are those of bge-m3's tokenizer.json.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    first, kept = special
    pieces = [(token, -100.0 if token == "<unk>NOTUSED" else 0.0) for token in first]
    pieces += [(each.piece, each.score) for each in proto.pieces[kept:]]
    made = tokenizers.Tokenizer(models.Unigram([*pieces, ("<mask>", 0.0)], unk_id=3))
    made.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    spaced = pre_tokenizers.Metaspace()
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaced])
    if not splits:
        made.normalizer = normalizers.Sequence(
            [made.normalizer, normalizers.Strip(left=False),
             normalizers.Replace(tokenizers.Regex(" {2,}"), "▁")]
        )  # fmt: skip
        made.pre_tokenizer = spaced
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(token, made.token_to_id(token)) for token in ("<s>", "</s>")],
    )
    made.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    made.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    return made


def library_gemma(size=700, sentences=SENTENCES, runs=8, words=False):
    """A tokenizer of the form of Gemma's in the library, whose merges SentencePiece learned.

    Its order of merges, by the pieces they make, is that of the published file; of "<0x09>" the
    file has the tab. mmBERT's form cuts `words`.
    """
    whole = [*("\n" * n for n in range(1, runs)), "<table>", "</s>", "<s>", "[@BOS@]"]
    spaces = ["▁" * n for n in range(2, runs)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, vocab_size=size + len(whole),
        model_type="bpe", byte_fallback=True, minloglevel=2, num_threads=1, pad_id=0, eos_id=1,
        bos_id=2, unk_id=3, eos_piece="<eos>", bos_piece="<bos>", normalization_rule_name="identity",
        user_defined_symbols=["<mask>", *whole, *spaces], split_digits=True, hard_vocab_limit=False,
        allow_whitespace_only_pieces=True, add_dummy_prefix=False, remove_extra_whitespaces=False,
    )  # fmt: skip
    pieces = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).pieces
    names = ["\t" if piece.piece == "<0x09>" else piece.piece for piece in pieces]
    ids = {name: index for index, name in enumerate(names)}
    merges = [
        (name[:cut], name[cut:])
        for name, _ in sorted(zip(names, pieces, strict=True), key=lambda pair: -pair[1].score)
        for cut in range(1, len(name))
        if {name[:cut], name[cut:]} <= ids.keys()
    ]
    made = tokenizers.Tokenizer(
        models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    if words:
        made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", pair="<bos> $A <eos> $B:1 <eos>:1",
        special_tokens=[(token, ids[token]) for token in ("<bos>", "<eos>")],
    )  # fmt: skip
    made.add_special_tokens(["<pad>", "<eos>", "<bos>", "<unk>"])
    made.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    made.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in [*whole, *spaces]])
    return made
