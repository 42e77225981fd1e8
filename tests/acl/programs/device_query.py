"""What pyACL users run first: which devices are there, and how much memory each has."""

import sys

import acl

ACL_HBM_MEM = 1
ACL_DEVICE, ACL_HOST = 0, 1


def check_ret(message: str, ret: int) -> None:
    if ret != 0:
        raise RuntimeError(f"{message} failed, ret = {ret}: {acl.get_recent_err_msg()}")


def main() -> int:
    check_ret("acl.init", acl.init())
    major, minor, patch, ret = acl.get_version()
    check_ret("acl.get_version", ret)
    count, ret = acl.rt.get_device_count()
    check_ret("acl.rt.get_device_count", ret)
    run_mode, ret = acl.rt.get_run_mode()
    check_ret("acl.rt.get_run_mode", ret)
    place = "host" if run_mode == ACL_HOST else "device"
    print(f"ACL {major}.{minor}.{patch}, {acl.get_soc_name()}, {count} devices, this program runs on the {place}")
    for device_id in range(count):
        check_ret("acl.rt.set_device", acl.rt.set_device(device_id))
        free, total, ret = acl.rt.get_mem_info(ACL_HBM_MEM)
        check_ret("acl.rt.get_mem_info", ret)
        streams, ret = acl.rt.get_stream_available_num()
        check_ret("acl.rt.get_stream_available_num", ret)
        peers = []
        for peer_id in range(count):
            can, ret = acl.rt.device_can_access_peer(device_id, peer_id)
            check_ret("acl.rt.device_can_access_peer", ret)
            peers += [peer_id] if can else []
        print(f"device {device_id}: {free >> 20} of {total >> 20} MiB free, {streams} streams, peers {peers}")
        check_ret("acl.rt.reset_device", acl.rt.reset_device(device_id))
    check_ret("acl.finalize", acl.finalize())
    return 0


if __name__ == "__main__":
    sys.exit(main())
