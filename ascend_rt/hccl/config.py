"""HcclCommConfig: what one communicator does otherwise than the environment says."""

# ruff: noqa: N815  the fields have their C names
from dataclasses import dataclass, fields

from ..settings import CONFIG_FIELDS, SettingError, Settings

NOT_SET = 0xFFFFFFFF
COMM_NAME_MAX_LENGTH = 128


@dataclass
class HcclCommConfig:
    """A communicator's configuration, by the names of its fields in C; made by HcclCommConfigInit.

    A field that is set beats the environment variable, which beats the default. Those without a variable are kept, and
    change nothing here.
    """

    hcclBufferSize: int = NOT_SET
    """MiB; HCCL_BUFFSIZE"""
    hcclDeterministic: int = NOT_SET
    """0, 1 or 2; HCCL_DETERMINISTIC"""
    hcclCommName: str = ""
    """under which HcclCommGetHandleWithName finds it; less than 128 bytes"""
    hcclUdi: str = ""
    hcclOpExpansionMode: int = 0
    hcclRdmaTrafficClass: int = NOT_SET
    hcclRdmaServiceLevel: int = NOT_SET
    hcclWorldRankID: int = NOT_SET
    hcclJobID: int = 0
    aclGraphZeroCopyEnable: int = 0
    hcclExecTimeOut: int = NOT_SET
    """seconds; HCCL_EXEC_TIMEOUT"""
    hcclAlgo: str = ""
    """HCCL_ALGO"""
    hcclRetryEnable: str = ""
    hcclRetryParams: str = ""
    hcclBufferName: str = ""
    hcclQos: int = NOT_SET
    hcclSymWinMaxMemSizePerRank: int = 16
    hcclChannelSqDepth: int = NOT_SET

    def given(self) -> dict[str, int | str]:
        """The fields that are set, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {each.name: values[each.name] for each in fields(self) if values[each.name] != each.default}

    def apply(self, settings: Settings) -> Settings:
        """`settings`, but for the fields that are set. SettingError (EI0016) for a value that is not allowed."""
        name = self.hcclCommName
        if len(name.encode()) >= COMM_NAME_MAX_LENGTH or name.split() not in ([], [name]):
            expected = f"a name of less than {COMM_NAME_MAX_LENGTH} bytes without white space"
            raise SettingError("the name", repr(name), expected, field="hcclCommName")
        given = {field: getattr(self, field) for field in CONFIG_FIELDS}
        return settings.with_config({field: value for field, value in given.items() if value not in (NOT_SET, "")})
