"""The arguments of hccl-atc: ATC's spellings, and ATC's codes for what is wrong with them.

As ATC does, options are taken with one dash or two and with dashes for underscores: -mode=6, --cluster-config.
"""

import argparse
import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

COMPILE, TO_JSON, SHOW = 0, 1, 6
VALUE, TYPE, MISSING, SWITCH = "E10001", "E10003", "E10004", "E10006"
JSON, NOT_SUPPORTED = "E10032", "E10055"

_OF_ATC = """
model weight framework soc_version core_type aicore_num virtual_type input_shape input_format input_shape_range
dynamic_batch_size dynamic_image_size dynamic_dims out_nodes output_type dump_mode check_report singleop
raw_ge_options_ignore_unsupported atomic_clean_policy external_weight enable_single_stream
multi_stream_parallel_mode oo_level oo_constant_folding oo_dead_code_elimination optimization_switch
buffer_optimize fusion_switch_file enable_small_channel sparsity precision_mode precision_mode_v2
op_precision_mode op_select_implmode optypelist_for_implmode keep_dtype modify_mixlist allow_hf32 customize_dtypes
deterministic deterministic_level log status_check op_debug_level op_debug_config debug_dir display_model_info
export_compile_stat op_compiler_cache_mode op_compiler_cache_dir static_model_ops_lower_limit jit_compile
tiling_schedule_optimize h2d_overlapped_with_compute ac_parallel_enable host_env_os host_env_cpu mdl_bank_path
op_bank_path insert_op_conf auto_tune_mode compression_optimize_conf save_original_model is_weight_clip
"""
OF_ATC = frozenset(_OF_ATC.split())
"""Options of ATC that mean nothing here."""


class ArgumentError(ValueError):
    """A wrong argument, with ATC's code for it."""

    def __init__(self, argument: str, given: object, expected: str, code: str = VALUE) -> None:
        super().__init__(f"{code}: {argument} is {given}; expected {expected}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{MISSING}: {message}")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """SystemExit after --help. ValueError with ATC's code: an option is none, or its value is wrong."""
    given, others = parser().parse_known_args([_spelt(word) for word in words])
    if others:
        raise ValueError(_unknown(others[0]))
    for name in ("mode", "disable_reuse_memory", "topo_sorting_mode", "ranks"):
        _make_whole(given, name)
    if given.disable_reuse_memory not in (0, 1):
        raise ArgumentError("--disable_reuse_memory", given.disable_reuse_memory, "0 or 1", SWITCH)
    if given.topo_sorting_mode not in range(4):
        raise ArgumentError("--topo_sorting_mode", given.topo_sorting_mode, "0, 1, 2 or 3")
    if given.mode not in (COMPILE, TO_JSON, SHOW):
        raise ArgumentError("--mode", given.mode, "0 (compile), 1 (JSON) or 6 (information)")
    return given


def read_json(argument: str, path: Path) -> Any:
    """ValueError with ATC's code: the file of an argument cannot be read, or is no JSON."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise ArgumentError(argument, f"{path} ({error.strerror})", "a file that can be read") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(argument, f"{path} ({type(error).__name__}: {error})", "a file of JSON", JSON) from None


def _spelt(word: str) -> str:
    name, equals, value = word.partition("=")
    if not re.match(r"--?[A-Za-z]{2,}", name):
        return word
    return f"--{name.lstrip('-').replace('-', '_')}{equals}{value}"


def _unknown(word: str) -> str:
    name = word.partition("=")[0]
    if not word.startswith("-"):
        return f"{VALUE}: non-option parameter {word!r}; expected one FILE.py:FUNCTION, and options"
    if name.lstrip("-") in OF_ATC:
        return f"{NOT_SUPPORTED}: {name} is an option of atc that hccl-atc has not: leave it out"
    close = difflib.get_close_matches(name, [text for action in parser()._actions for text in action.option_strings])
    meant = f"; is {close[0]} meant?" if close else ""
    return f"{VALUE}: unknown command line flag {name!r}{meant}"


def _make_whole(given: argparse.Namespace, name: str) -> None:
    text = getattr(given, name)
    if isinstance(text, str):
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise ArgumentError(f"--{name}", repr(text), "an integer", TYPE)
        setattr(given, name, int(text))


def parser() -> argparse.ArgumentParser:
    """ATC's spellings, as far as they mean something here."""
    made = _Parser(
        prog="hccl-atc",
        usage="hccl-atc build_fn.py:build --ranks N --output PATH [options]  |  --mode=1|6 --om=PATH",
        description="Compile the graphs of all ranks ahead of time: checked together, memory planned, one .om.",
        allow_abbrev=False,
        add_help=False,
    )
    add = made.add_argument
    add("-h", "--h", "--help", action="help", help="show this")
    add(
        "build", nargs="?", metavar="FILE.py:FUNCTION", help="function of (rank, size) that returns the rank's ge.Graph"
    )
    add("--ranks", metavar="N", help="ranks of the job (default: those of --cluster_config)")
    table = "JSON with a rank table, alone or as its field RankTable, and HcclCommConfig of a communicator of all"
    add("--cluster_config", metavar="FILE", help=table)
    parts = 'JSON {"GroupList": [{"RankIds": [], "HcclCommConfig": {}}]}: communicators of some ranks'
    add("--hccl_sub_comm_config", metavar="FILE", help=parts)
    add("--output", metavar="PATH", help="path of the .om without its suffix")
    add("--mode", default=COMPILE, help="0 compile (default), 1 an .om as JSON, 6 show what an .om needs")
    add("--om", metavar="PATH", help="with --mode: the .om to look at")
    add("--json", metavar="PATH", help="with --mode=1: where the JSON goes")
    reuse = "0 (default): buffers share memory; 1 or no value: none does"
    add("--disable_reuse_memory", nargs="?", const=1, default=0, metavar="0|1", help=reuse)
    raw = 'JSON {"compile options": {"global": {}, "session": {}, "graph": {}}} of GE options: run the passes by them'
    add("--raw_ge_options", metavar="FILE", help=raw)
    times = "what kernels take, as a job has measured it (ascend_rt.ge.kernel_times): run the passes by it"
    add("--kernel_times", metavar="FILE", help=times)
    link = "emulated links, as of hccl-run: run the passes for them (default: those of --kernel_times)"
    add("--link", metavar="LINK", help=link)
    sorting = "how nodes are listed: 0 BFS, 1 DFS, 2 RDFS, 3 as they were built (default)"
    add("--topo_sorting_mode", default=3, metavar="0..3", help=sorting)
    return made
