"""What of Spark and its JVM is reached beyond the public interface: names, plans, progress, checkpoints, Java classes.

It knows nothing of Tidemark's streams and uses ``models`` alone.
"""
