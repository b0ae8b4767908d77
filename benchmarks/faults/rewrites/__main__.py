"""Runs the command line."""

from .cli import app

app()
