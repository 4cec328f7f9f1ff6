"""Live: the watermark steered while the query runs, through a control stream."""
