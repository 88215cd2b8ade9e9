"""Files of the user: edges, features and labels in, embeddings and predictions out."""

from .column_roles import check_distinct_columns
from .loading import load_files
from .output import (
    check_id_name,
    check_output,
    check_outside_of_inputs,
    write_embedding,
    write_predictions,
    write_values,
)

__all__ = [
    "check_distinct_columns",
    "check_id_name",
    "check_output",
    "check_outside_of_inputs",
    "load_files",
    "write_embedding",
    "write_predictions",
    "write_values",
]
