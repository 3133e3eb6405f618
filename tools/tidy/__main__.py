#!/usr/bin/env python3
"""`python3 tools/tidy`, or tools/tidy/rfc.py: prints the table of the RFCs in docs/rfc (`--check`: are the tests there that it names?)."""
import sys

from rfc import main

if __name__ == "__main__":
    sys.exit(main())
