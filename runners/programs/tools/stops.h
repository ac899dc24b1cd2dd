/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A call that stops: each, or where an argument is, or is not, a value, or has one of its bits. */
struct stop {
	int nr;
	enum { ALWAYS, IF_IT_IS, IF_NOT, IF_IT_HAS } when;
	int argument;
	unsigned int value;
};
