"""Vectors of texts: features of their tokens, words or wholes, files of them, and a search."""
