"""Name resolution: workspace names become names that Spark knows."""
