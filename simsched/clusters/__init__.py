"""Cluster files that come with simsched."""
