"""What charts show of a stream: curve, history, heat map, preview."""
