"""OpenLineage: events on the runs of jobs, with what they read and write and how complete their windows are."""
