"""Why an .om is not taken."""

from ...acl.errors import AclError

ACL_ERROR_GE_LOAD_MODEL = 545001


class ModelFileError(AclError):
    """A file is no .om, is damaged, or is not for this version or this job; the text says which field is wrong."""

    def __init__(self, reason: str) -> None:
        super().__init__(ACL_ERROR_GE_LOAD_MODEL, f"ACL_ERROR_GE_LOAD_MODEL ({ACL_ERROR_GE_LOAD_MODEL}): {reason}")
