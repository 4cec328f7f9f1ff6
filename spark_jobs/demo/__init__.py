"""The demonstration: the whole loop on a real Spark stream, once with a guessed bound and once with the recommended."""
