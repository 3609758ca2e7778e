"""Configuration, layers, encoder and heads."""
