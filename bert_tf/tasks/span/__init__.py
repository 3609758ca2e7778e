"""Question answering by spans."""
