"""ASCEND_RT_KERNELS: which words choose which kernels, and what a processor without them says."""

import pytest

from ascend_rt.core import _core
from ascend_rt.hccl.communicator import KERNELS, kernels_for
from ascend_rt.settings import SettingError, Settings


def test_every_word_of_the_setting_is_known() -> None:
    assert set(Settings.ascend_rt_kernels.parser.words) == {"auto", *KERNELS}  # type: ignore[attr-defined]
    assert kernels_for("auto") == -1
    assert kernels_for("plain") == _core.KERNEL_PLAIN


@pytest.mark.parametrize("word", KERNELS)
def test_kernels_that_this_processor_lacks_are_refused(word: str) -> None:
    if _core.has_kernels(KERNELS[word]):
        assert kernels_for(word) == KERNELS[word]
    else:
        with pytest.raises(SettingError, match=f"EI0001.*ASCEND_RT_KERNELS is '{word}'; expected auto, or .*: plain"):
            kernels_for(word)


def test_no_processor_has_the_kernels_of_both_architectures() -> None:
    assert not (_core.has_kernels(_core.KERNEL_NEON) and _core.has_kernels(_core.KERNEL_AVX2))
    assert not any(_core.has_kernels(number) for number in (-1, 4, 2**31 - 1))
