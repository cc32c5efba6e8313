"""Runs a topology: wave 0 reads, later waves store and probe, a manifest commits."""
