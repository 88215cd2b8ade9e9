"""Reproduction of the paper's tables and figures: ``python -m reproduction run`` and ``report``.

Data flow: pools -> cells -> runner -> journal -> selection -> typed rows -> templates.
"""
