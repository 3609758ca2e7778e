"""The page of a server: choose a signature, type, see the answer."""
