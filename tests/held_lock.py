"""A gateway whose C code holds Python's lock for ever, as soon as a test orders it."""

_PROGRAM = """
import ctypes, re, sys, threading, time
from pathlib import Path
import lodge.serve
from lodge.cli import main

order = Path(sys.argv.pop(1))
serve = lodge.serve.serve

def hold_the_lock_of_python():
    while not order.exists():
        time.sleep(0.1)
    order.unlink()
    {call}

async def changed(*arguments):
    threading.Thread(target=hold_the_lock_of_python, daemon=True).start()
    await serve(*arguments)

lodge.serve.serve = changed
sys.exit(main())
"""

HOLDS_THE_LOCK = _PROGRAM.format(call="ctypes.PyDLL(None).sleep(100_000)")
"""The program of ``python -c``, whose C code waits.

Its first argument is a file, which the gateway removes when it obeys. The other arguments are those of the command
``lodge``.
"""

COMPUTES_WITH_THE_LOCK = _PROGRAM.format(call="re.match('(a*)*b', 'a' * 100)")
"""The same program with C code that computes."""
