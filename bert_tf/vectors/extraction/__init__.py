"""Features of tokens, words and texts: hidden states of an encoder, and their files."""
