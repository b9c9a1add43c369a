"""Frees the local variables that reported errors keep in memory.

The traceback of an error refers to the frames through which the error was raised, and so to all their local variables,
such as the message of a client. If a local variable refers to the error in turn, for example because it is the task
that failed, only Python's garbage collector frees the message. The collector counts objects, not bytes, so a few calls
with large messages can fill the memory before it runs.

gRPC makes such a cycle of every call that ends with an error.
"""


def forget_frames(error: BaseException) -> None:
    """Remove what an error refers to: its frames, its cause and its context.

    The causes and contexts lose their frames too. Call it where an error has been reported, so that nobody needs its
    traceback any more.
    """
    found: list[BaseException | None] = [error]
    seen: set[int] = set()
    while found:
        each = found.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        found += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            found += each.exceptions
    error.__cause__ = error.__context__ = None
