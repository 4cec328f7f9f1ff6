"""TODO: spark_jobs/core."""
