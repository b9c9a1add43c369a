"""The SQL of temporary tables: tokens, statements and references to workspaces."""
