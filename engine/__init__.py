"""The loader engine, which scans files with different schemas and returns Arrow record batches.

``README.md`` explains which module to open first.
"""
