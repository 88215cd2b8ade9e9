"""Node data, the training loop and its checkpoints."""
