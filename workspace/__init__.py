"""The storage that gateway and reaper share."""
