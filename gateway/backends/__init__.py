"""The Spark Connect servers: their sessions, failures and answers, and forwarded requests."""
