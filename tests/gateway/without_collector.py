"""A gateway whose memory does not depend on Python's garbage collector.

The collector counts objects, not bytes. If it had to free the messages of ended calls, a client could fill the memory
of a gateway with a few hundred calls, and what a test measures would depend on when the collector runs.
"""

WITHOUT_COLLECTOR = """
import ctypes, gc, sys
from lodge.cli import main

gc.disable()
ctypes.CDLL(None).mallopt(-3, 2**20)  # M_MMAP_THRESHOLD: the system gets each large block back at once
sys.exit(main())
"""
"""The program of a gateway without a garbage collector."""
