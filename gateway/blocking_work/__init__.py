"""Blocking calls and large computations in threads, with limits for each principal."""
