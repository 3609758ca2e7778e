"""The studies of the paper: what jobs each asks for, and what it reads from their outcomes."""
