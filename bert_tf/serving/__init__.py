"""Answers of a trained model: in this process, and as a client of a server."""
