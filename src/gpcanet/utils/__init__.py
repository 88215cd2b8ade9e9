"""What every other part may use: checks, labels, whole files, progress."""
