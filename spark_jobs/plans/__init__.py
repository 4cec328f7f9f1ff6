"""TODO: spark_jobs/plans."""
