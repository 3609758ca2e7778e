"""How outputs of pre-training become a loss, and what is counted of it."""
