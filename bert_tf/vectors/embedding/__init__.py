"""Vectors of texts: made by an encoder, kept in files, and searched."""
