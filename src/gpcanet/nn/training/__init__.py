"""Training: node data, models by name, the training loop and its checkpoints."""
