"""Runs a topology: wave 0 reads input, later waves store and probe, and a manifest commits the batch."""
