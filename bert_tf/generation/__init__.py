"""Text generation: decoders with a cache, and one loop for greedy, sampled and beam search."""
