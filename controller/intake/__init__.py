"""Taking reports: routes, checks, group commit, one transaction for each."""
