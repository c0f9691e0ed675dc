# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Modules of tools/check-btf: `elf` and `types` read kernels and BPF objects, `programs` finds the fields that each program
reads, `removal` removes the fields one at a time, `newest` fetches Debian's newest kernels, `page` writes docs/kernels.md.
`selftest` tests them.
"""
