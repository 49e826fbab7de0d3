"""``python -m regard`` is the command ``regard``."""

import sys

from regard.cli import main

sys.exit(main())
