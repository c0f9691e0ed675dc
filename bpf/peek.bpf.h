/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads a word of kernel memory: a plain load where the kernel permits it (6.2), else a helper
 * call.
 */
#ifndef RAIDTRACE_PEEK_BPF_H
#define RAIDTRACE_PEEK_BPF_H

#include <bpf/bpf_core_read.h>

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/*
 * Commit a35b9af4ec2c ("bpf: Add a kfunc for generic type cast") lets a program load from any
 * address as if it held a type of the kernel; the verifier removes the call. The cast is to struct
 * timespec64, whose first field has 64 bits: the real structure may be a module's, which the kfunc
 * does not accept.
 */
static __always_inline __u64 rt_peek(__u64 address)
{
	__u64 value = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast))
		return ((struct timespec64 *)bpf_rdonly_cast(
			(void *)address, bpf_core_type_id_kernel(struct timespec64)))->tv_sec;
	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

/*
 * Defined as 1 before this file is included if the lack of a field must stop the program: a 0 in
 * place of its value would give wrong figures.
 */
#ifndef RT_FIELD_EXISTS
#define RT_FIELD_EXISTS bpf_core_field_exists
#endif

/*
 * Like BPF_CORE_READ() of one field, of up to 8 bytes; 0 if the kernel lacks the field. What is
 * lost then: src/probe/fields.rs.
 */
#define RT_PEEK(pointer, field) \
	((typeof((pointer)->field))(RT_FIELD_EXISTS(typeof(*(pointer)), field) ? \
		rt_peek((__u64)(pointer) + bpf_core_field_offset(typeof(*(pointer)), field)) : 0))

#endif
