"""Tokenizers of tokens that a test lists, ours and those of the tokenizers library."""

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary


def wordpiece(tokens, **settings):
    """The WordPiece tokenizer of some tokens."""
    return WordPieceTokenizer(WordPieceVocabulary(tuple(tokens)), **settings)


def library_wordpiece(tokens, **settings):
    """The same in the library, as transformers makes it; settings are of its normalizer."""
    ids = {token: index for index, token in enumerate(tokens)}
    made = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(**settings)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    made.add_special_tokens(list(SPECIAL_TOKENS))
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
