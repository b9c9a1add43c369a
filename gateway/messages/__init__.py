"""The messages of clients and backends: requests, who sent them, and the errors that answer them."""
