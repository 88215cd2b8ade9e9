"""``python -m gpcanet`` runs the command ``gpcanet``."""

from .cli import main

main()
