/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The id of a function in the kernel's type information (BTF): fentry programs need it. */
#include <linux/btf.h>
#include <stdbool.h>
#include <string.h>

#include "knob.h"

#define TYPES "/sys/kernel/btf/vmlinux"

static char data[16 << 20];

/* The length of what follows a type's three words. */
static size_t length_after(unsigned int info)
{
	size_t count = BTF_INFO_VLEN(info);

	switch (BTF_INFO_KIND(info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return count * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return count * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return count * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return count * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return count * sizeof(struct btf_var_secinfo);
	default:
		return 0;
	}
}

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
		bool function = BTF_INFO_KIND(type->info) == BTF_KIND_FUNC;

		if (function && strcmp(strings + type->name_off, name) == 0)
			return id;
		at += sizeof(*type) + length_after(type->info);
	}
	fail("the kernel's BTF has no function %s", name);
}
