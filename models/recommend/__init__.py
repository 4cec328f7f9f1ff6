"""From evidence to a recommended bound. Pure: the same inputs give the same recommendation."""
