"""What goes wrong while ranks come together: to a job, or to a group within it."""


class JoinError(RuntimeError):
    """This process cannot join its job. `code` is HCCL's (EI0006: socket or timeout); `ranks` are those at fault."""

    def __init__(self, text: str, *, code: str = "EI0006", ranks: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.code, self.ranks = code, ranks


class GroupError(RuntimeError):
    """A group of ranks was not formed.

    why     gone, differs, settings, taken, room, late, unserved, left or fork
    ranks   those at fault: in the job if they are gone, else in the group
    """

    def __init__(self, text: str, why: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.why, self.ranks = why, ranks
