"""Models on their way out: SavedModels for TF Serving and TF Hub, and other formats."""
