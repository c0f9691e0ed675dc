#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Each set of programs on a kernel whose ext4 is a module, as in most distributions: the verifier
# has rules of its own for the tracepoints of modules.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

array md120 200M 3 --level=5 --chunk=64
filesystem md120

# traced COMMAND ARGS...: writes files until it ends.
traced() {
	local pid
	raidtrace "$@" --json >"$out/$1.out" 2>"$out/$1.err" &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		write_files md120
		rm -r /mnt/md120/d*
	done
	wait "$pid" && echo 0 >"$out/$1.status" || echo $? >"$out/$1.status"
}

traced top md120 -n 3
traced slow -t 1us md120 -n 3
traced alloc md120 -n 3
umount /mnt/md120
