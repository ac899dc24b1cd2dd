/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The id of a function in the kernel's type information (BTF): fentry programs need it. */
#include <linux/btf.h>
#include <string.h>

#include "knob.h"

#define TYPES "/sys/kernel/btf/vmlinux"

static char data[16 << 20];

/* What follows a type's three words, by kind: so many bytes, and so many for each member. */
static const struct {
	unsigned char fixed, each;
} after[32] = {
	[BTF_KIND_INT] = {4, 0},
	[BTF_KIND_VAR] = {sizeof(struct btf_var), 0},
	[BTF_KIND_DECL_TAG] = {sizeof(struct btf_decl_tag), 0},
	[BTF_KIND_ARRAY] = {sizeof(struct btf_array), 0},
	[BTF_KIND_STRUCT] = {0, sizeof(struct btf_member)},
	[BTF_KIND_UNION] = {0, sizeof(struct btf_member)},
	[BTF_KIND_ENUM] = {0, sizeof(struct btf_enum)},
	[BTF_KIND_ENUM64] = {0, sizeof(struct btf_enum64)},
	[BTF_KIND_FUNC_PROTO] = {0, sizeof(struct btf_param)},
	[BTF_KIND_DATASEC] = {0, sizeof(struct btf_var_secinfo)},
};

unsigned int find_btf_function(const char *name)
{
	const struct btf_header *header = (const void *)data;
	const char *strings, *at, *end;

	read_file(TYPES, data, sizeof(data));
	strings = data + header->hdr_len + header->str_off;
	at = data + header->hdr_len + header->type_off;
	end = at + header->type_len;
	for (unsigned int id = 1; at < end; id++) {
		const struct btf_type *type = (const void *)at;
		unsigned int kind = BTF_INFO_KIND(type->info);

		if (kind == BTF_KIND_FUNC && strcmp(strings + type->name_off, name) == 0)
			return id;
		at += sizeof(*type) + after[kind].fixed +
		      after[kind].each * BTF_INFO_VLEN(type->info);
	}
	fail("the kernel's BTF has no function %s", name);
}
