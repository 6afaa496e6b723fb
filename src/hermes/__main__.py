"""``python -m hermes`` is the ``hermes`` command."""

import sys

from hermes.surfaces.cli.main import main

sys.exit(main())
