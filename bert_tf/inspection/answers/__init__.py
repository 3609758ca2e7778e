"""What models with tasks answer, and the scores that explain it; a module a shape of task."""
