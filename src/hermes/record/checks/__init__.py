"""Checks made from runs: tests, and evaluations over datasets."""
