# SPDX-License-Identifier: GPL-2.0-or-later
"""The few kernel headers that BCC includes, so that it needs no kernel's headers at all.

BCC compiles against the running kernel's headers, 16 MB that a guest does not have. A program that
looks into no kernel structure needs of them only fixed-width integers, the registers of x86-64, and
the presence of some files. BCC takes their folder from BCC_KERNEL_SOURCE.
"""

from pathlib import Path

CONFIG = """\
#define CONFIG_BPF_SYSCALL 1
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 10, 0)
"""
TYPES = """\
#pragma once
typedef unsigned char u8, __u8;
typedef unsigned short u16, __u16, __be16, __le16, __sum16;
typedef unsigned int u32, __u32, __be32, __wsum, __poll_t;
typedef unsigned long long u64, __u64, __be64;
typedef signed char s8, __s8;
typedef short s16, __s16;
typedef int s32, __s32, pid_t;
typedef long long s64, __s64;
typedef u64 __attribute__((aligned(8))) __aligned_u64;
typedef unsigned long size_t, uintptr_t;
typedef _Bool bool;
#define NULL ((void *)0)
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
"""
EMPTY = (
    *("linux/bpf_common.h", "linux/log2.h", "linux/version.h", "asm/page.h"),
    *("uapi/linux/bpf.h", "uapi/linux/if_packet.h", "generated/autoconf.h"),
)


def write(folder: Path) -> None:
    """Write them below `folder`, which is then what BCC_KERNEL_SOURCE must name."""
    files = {"linux/kconfig.h": CONFIG, "linux/types.h": TYPES} | dict.fromkeys(EMPTY, "")
    for name, text in files.items():
        path = folder / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
