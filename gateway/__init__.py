"""The gRPC front door: one process that serves many client sessions."""
