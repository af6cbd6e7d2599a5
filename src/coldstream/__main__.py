"""`python -m coldstream`."""

import sys

from coldstream.cli import main

sys.exit(main())
