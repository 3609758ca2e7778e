"""What vectors and features of texts share: an encoder at work, and outputs that grow by blocks."""
