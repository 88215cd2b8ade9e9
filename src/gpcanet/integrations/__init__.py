"""GPCA inside other libraries: AnnData with scanpy, and PyTorch Geometric."""
