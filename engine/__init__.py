"""The loader engine: it scans files with changing schemas and returns Arrow record batches.

``README.md`` shows which module to open first.
"""
