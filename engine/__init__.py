"""The loader engine: scans of raw files that end in Arrow record batches. Start with README.md."""
