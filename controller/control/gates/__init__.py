"""Outside gates: webhooks and Prometheus queries that are asked about narrowings, as the policy says."""
