"""Initialisers of graph networks: weights from eigenvectors, and random weights."""
