"""The Tidemark service: REST, the decision loop, the store, metrics and the command line."""
