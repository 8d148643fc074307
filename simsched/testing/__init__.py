"""Suites that test schedulers and the control plane, for simsched and for its users."""
