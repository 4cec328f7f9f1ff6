"""The rows that Spark dropped as late, read again from what the checkpoint's logs say of each batch."""
