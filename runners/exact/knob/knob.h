/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <linux/bpf.h>
#include <stddef.h>

#include "../fail.h"

/*
 * Continues in a new process of this name, which stays when the program ends. The program succeeds
 * when the new process calls ready(), and fails if the new process fails before.
 */
void stay(const char *name);
void ready(void);
/* Calls ready(), then keeps the process, and all that it has open, alive. */
_Noreturn void ready_and_wait(void);

int bpf(enum bpf_cmd command, union bpf_attr *attributes); /* bpf(2) */
/* Loads a program of `count` instructions, under this name; `program` has its type. */
int load_program(union bpf_attr *program, const char *name, const struct bpf_insn *instructions,
		 size_t count);
/* The id of a function in the kernel's own BTF. */
unsigned int find_btf_function(const char *name);

void attach_probe(char **words);
/* Mounts tracefs and returns the place. */
const char *mount_tracefs(void);
unsigned long read_number(const char *path);
/* A tracepoint's id for perf_event_open(2); `where` is category/name. */
unsigned long tracepoint_id(const char *where);

void set_tracer(char **words);
void open_events(char **words);
void open_packet_socket(char **words);
void attach_cgroup_program(char **words);
void attach_script(char **words);
