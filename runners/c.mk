# SPDX-License-Identifier: GPL-2.0-or-later
#
# What all Makefiles of C programs share. Before it includes this file, a Makefile sets PROGRAMS,
# the files to link, and may set FLAGS, which go to the compiler and to the linker.

CFLAGS ?= -O2 -g
BUILD ?= build
OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard *.c))

all: $(PROGRAMS) ## the program (default)

$(PROGRAMS):
	$(CC) $(FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^

# Debug information names no folder: the same sources make the same bytes anywhere. The shell's PWD,
# unlike CURDIR, may have any character in it.
FLAGS += -ffile-prefix-map="$$PWD"=.

# The Makefiles are prerequisites: changed flags must not leave old objects behind.
$(BUILD)/%.o: %.c $(MAKEFILE_LIST) | $(BUILD)
	$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -MMD -MP $(FLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD):
	mkdir -p $@

clean: ## remove build/
	rm -rf build

.PHONY: all clean
.SECONDARY:

-include $(wildcard $(BUILD)/*.d)
