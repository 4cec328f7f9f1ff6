"""TODO: spark_jobs/restart."""
