#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Each set of programs on a kernel whose ext4 is a module, as in most distributions: the verifier
# has rules of its own for the tracepoints of modules.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

array md120 200M 3 --level=5 --chunk=64
filesystem md120

# traced COMMAND ARGS...: writes files meanwhile.
traced() {
	local pid round
	raidtrace "$@" --json >"$out/$1.out" 2>"$out/$1.err" &
	pid=$!
	wait_until 900 has_printed "$out/$1.out" "$pid"
	for round in 1 2; do
		echo "$1: round $round"
		write_files md120
		rm -r /mnt/md120/d*
	done
	kill -INT "$pid" 2>/dev/null || true
	wait "$pid" && echo 0 >"$out/$1.status" || echo $? >"$out/$1.status"
}

traced top md120
traced slow -t 1us md120
traced alloc md120
umount /mnt/md120
