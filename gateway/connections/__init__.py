"""Connections with clients and backends: TLS, limits, and Lodge's own credentials.

These modules do not depend on the content of requests. Therefore, another server could replace ``listener.py``.
"""
