"""Shadows: a target and caps that are tried beside the SLO in force of a stream, and promoted by a person."""
