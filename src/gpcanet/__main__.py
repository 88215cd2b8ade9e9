"""python -m gpcanet is gpcanet."""

from .cli import main

main()
