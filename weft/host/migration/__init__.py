"""Migration: from the state of one plan to the state of another."""
