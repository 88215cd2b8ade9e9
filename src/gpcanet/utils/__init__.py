"""Helpers without dependencies on other parts: checks, labels, files, progress, memory."""
