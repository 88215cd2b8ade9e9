"""A page on which the nodes move as alpha and beta change."""

from .build import Explorer, default_path, explore

__all__ = ["Explorer", "default_path", "explore"]
