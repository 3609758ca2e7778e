"""Looks inside models and runs: the numbers, and the pages that show them."""
