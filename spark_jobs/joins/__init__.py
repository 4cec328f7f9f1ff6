"""What Spark derives of the joins of two streams, read from a query's plan."""
