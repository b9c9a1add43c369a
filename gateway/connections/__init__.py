"""Connections with clients and backends: TLS, limits, and Lodge's own credentials.

These modules do not know anything about requests. Another server for bytes could replace ``listener.py`` one day.
"""
