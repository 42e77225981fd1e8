"""What goes wrong while the ranks of a job come together."""


class JoinError(RuntimeError):
    """This process cannot join its job. `code` is HCCL's (EI0006: socket or timeout); `ranks` are those at fault."""

    def __init__(self, text: str, *, code: str = "EI0006", ranks: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.code, self.ranks = code, ranks
