"""Ids to pre-training examples: units of work, segments, masking, TFRecords, and their reader."""
