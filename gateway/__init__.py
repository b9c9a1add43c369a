"""The Spark Connect gateway: one process that serves many client sessions."""
