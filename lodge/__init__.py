"""The command ``lodge``."""
