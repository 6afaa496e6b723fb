"""``python -m hermes`` is the ``hermes`` command."""

import sys

from hermes.cli.main import main

sys.exit(main())
