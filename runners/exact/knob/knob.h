/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PATHCOST_KNOB_H
#define PATHCOST_KNOB_H

#include <linux/bpf.h>

_Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);
_Noreturn void call_failed(const char *call);

/*
 * Go on in a process of its own, which stays: the caller's ends well when it
 * says ready(), and with its words when it fails before that. `name` is what
 * the kernel calls it.
 */
void stay(const char *name);
void ready(void);

int bpf(enum bpf_cmd command, union bpf_attr *attributes); /* bpf(2) */
/* The id by which the kernel's own BTF knows a function. */
unsigned int find_btf_function(const char *name);

void attach_probe(char **words);
/* Where tracefs is mounted, which it is by this. */
const char *mount_tracefs(void);
unsigned long read_number(const char *path);
/* The number that perf_event_open(2) knows a tracepoint by; `where` is category/name. */
unsigned long tracepoint_id(const char *where);

void set_tracer(char **words);
void open_events(char **words);
void open_packet_socket(char **words);
void attach_cgroup_program(char **words);
void attach_script(char **words);

#endif
