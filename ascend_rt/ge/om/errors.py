"""Why an .om is not taken."""

ACL_ERROR_GE_LOAD_MODEL = 545001


class ModelFileError(ValueError):
    """A file is no .om, is damaged, or is not for this version or this job; the text says which field is wrong."""

    code = ACL_ERROR_GE_LOAD_MODEL

    def __init__(self, reason: str) -> None:
        super().__init__(f"ACL_ERROR_GE_LOAD_MODEL ({self.code}): {reason}")
