"""Communicators and collectives, and the errors they raise."""
