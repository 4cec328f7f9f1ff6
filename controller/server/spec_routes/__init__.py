"""Setting, reading and deleting SLOs, policies, joins and pins over HTTP, and what follows from a write."""
