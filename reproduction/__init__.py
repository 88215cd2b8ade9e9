"""The paper's evidence: its tables and figures as lists of runs, told beside its numbers."""
