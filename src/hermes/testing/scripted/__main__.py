"""``python -m hermes.testing.scripted`` runs a scripted model server."""

from hermes.testing.scripted.server import main

main()
