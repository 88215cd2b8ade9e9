"""Initialisers: weights from eigenvectors, and random ones."""
