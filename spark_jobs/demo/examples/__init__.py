"""Example jobs, each a whole program for `spark-submit`."""
