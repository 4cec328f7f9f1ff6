"""A client for the REST API, for scripts and the command line."""

from tidemark.controller.client.client import Client

__all__ = ["Client"]
