"""Published bounds: what each job is asked to use, and what it acknowledged."""
