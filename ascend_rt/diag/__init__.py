"""The one vocabulary of disagreement and failure."""
