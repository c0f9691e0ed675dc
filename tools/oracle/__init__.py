# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An account of member IO that shares no code with raidtrace, and its comparison with `raidtrace top --json`.

  geometry   sector of a member -> sector of the array, parity or md's metadata (md(4), mdadm)
  ext4       sector of a filesystem -> origin (dumpe2fs, debugfs)
  xfs        sector of an XFS filesystem -> origin at the time of an IO (buffer operations from a kprobe event, xfs_db)
  stack      arrays and filesystems on top of each other
  events     block_rq_complete events and disk statistics of the kernel
  stripes    the reason why md submitted a bio, from a kprobe event. btf: offsets for this event
  account    both accounts of a run: the kernel's and raidtrace's
  verdict    their comparison
  matrix     the cells of tools/truth

guest/ runs in the virtual machine: guest.sh is shared with tests/lab, the other scripts are only for tools/truth.
`compare` checks a run of tests/lab, `selftest` checks this package.
"""
