"""Charts of a stream: curve, history, heat map, preview."""
