"""Specifications that operators set: the SLO and the policy of a stream."""
