"""The mathematics and the wire types of Tidemark: pure, with no clock, no I/O, no Spark, no HTTP and no SQL."""
