#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# PREEMPT_RT with BPF ring buffers whose lock sleeps: top works, the commands that need a ring buffer end with an error.
# Leaves the files of top, and record.err, slow.err with the exit statuses in errors.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

array md120 256M 2 --level=1 --bitmap=none
filesystem md120 -J size=4
start_top top md120
dd if=/dev/zero of=/mnt/md120/file bs=64k count=32 oflag=direct status=none
wait_intervals
stop_top
for command in 'record -o /out/a.rtrace' slow; do
	status=0
	# shellcheck disable=SC2086 # words
	timeout 300 raidtrace $command md120 2>"/out/${command%% *}.err" >/dev/null || status=$?
	echo "${command%% *} $status" >>/out/errors
done
cat /out/errors /out/record.err /out/slow.err
