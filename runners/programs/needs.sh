#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What an article's experiment needs: read by setup.sh, whose lists it adds to.
#
#   . needs.sh PROGRAM
# shellcheck disable=SC2154 # here, packages and parts are setup.sh's

case $1 in
redis) packages+=(redis-tools) parts+=("$here/programs/redis") ;;
asyncio) packages+=(python3-uvloop) ;;
dotnet) parts+=("$here/programs/dotnet") ;;
go) packages+=(golang-go) parts+=("$here/programs/go") ;;
java) packages+=(golang-go default-jdk-headless) parts+=("$here/programs/go" "$here/programs/java") ;;
gin) packages+=(golang-go ca-certificates) parts+=("$here/programs/tools" "$here/programs/gin") ;;
esac
