"""The reaper: removes what dead gateways left behind."""
