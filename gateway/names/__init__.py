"""Name resolution: replaces workspace names with names that Spark can resolve."""
