"""How each RPC is processed."""
