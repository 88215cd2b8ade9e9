"""The user's own files: edges, features and labels in, embeddings and predictions out."""

from .join import load_files
from .output import check_output, write_embedding, write_predictions

__all__ = ["check_output", "load_files", "write_embedding", "write_predictions"]
