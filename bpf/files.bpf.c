// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Moves files' counts to rt_file_ios, and stores the name of a file when it is first seen. This
 * slow path runs when a CPU switches to another file, not per IO.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "optional.bpf.h"
#include "files.bpf.h"
#include "stripe.bpf.h"

static __always_inline void add_file(struct rt_file_key *key, const struct rt_io *add)
{
	key->interval = rt_interval;
	rt_add_or_lose(&rt_file_ios, key, add, RT_LOST_FILES);
}

/* Stores the name of the inode's first dentry: a file with several links has several dentries. */
static __always_inline void note_name(struct inode *inode, const struct rt_file_id *id,
				      __u32 instance)
{
	__u64 alias = (__u64)BPF_CORE_READ(inode, i_dentry.first);
	struct dentry *dentry = (struct dentry *)(alias - rt_alias_offset());
	struct inode *directory;
	struct rt_file *file;

	file = bpf_map_lookup_elem(&rt_file_names, &instance);
	if (!file)
		return;
	file->parent = 0;
	file->parent_generation = 0;
	file->name[0] = 0;
	file->links = BPF_CORE_READ(inode, i_nlink);
	if (alias && rt_alias_offset()) {
		directory = BPF_CORE_READ(dentry, d_parent, d_inode);
		/* a dentry that is its own parent was opened by handle: the directory is unknown */
		if (directory && directory != inode) {
			file->parent = BPF_CORE_READ(directory, i_ino);
			file->parent_generation = BPF_CORE_READ(directory, i_generation);
			if (bpf_probe_read_kernel_str(file->name, sizeof(file->name),
						      BPF_CORE_READ(dentry, d_name.name)) < 0)
				file->name[0] = 0;
		}
	}
	bpf_map_update_elem(&rt_files, id, file, BPF_ANY);
}

__u64 rt_dm_origin(__u64 bio)
{
	__u64 source;
	int i;

	for (i = 0; i < RT_DM_LAYERS; i++) {
		source = rt_dm_source((struct bio *)bio);
		if (!source)
			break;
		bio = source;
	}
	return bio;
}

__u64 rt_derived_file(__u64 number)
{
	struct bio *bio = (struct bio *)rt_dm_origin(number);
	__u64 inode, vec;

	inode = rt_end_io_inode((__u64)bio, (__u64)BPF_CORE_READ(bio, bi_end_io),
				BPF_CORE_READ(bio, bi_private));
	if (inode || !rt_has_pages())
		return inode;
	vec = (__u64)BPF_CORE_READ(bio, bi_io_vec) +
	      (__u64)BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec);
	return rt_page_inode((__u64)BPF_CORE_READ((struct bio_vec *)vec, bv_page));
}

int rt_take_file(__u64 inode, __u32 what, __u64 bytes, __u32 pid)
{
	struct rt_file_key key = { .array = what >> 8 & 0xffff, .op = what & 0xff, .pid = pid };
	struct rt_file_key old_key;
	struct rt_io old;
	struct rt_file_pending *p;
	volatile struct rt_file_slot *s;
	__u32 instance = what >> RT_FILE_INSTANCE_SHIFT, slot;
	__u64 version;

	p = bpf_map_lookup_elem(&rt_files_pending, &instance);
	if (!p)
		return 0;
	if (rt_identify(inode, &key.file)) {
		if (!bpf_map_lookup_elem(&rt_files, &key.file))
			note_name((struct inode *)inode, &key.file, instance);
	} else {
		inode = 0;
	}
	slot = rt_file_slot(inode, key.op, pid) & (RT_FILE_SLOTS - 1);
	s = &p->slot[slot];
	if (!inode && !s->address && s->key.array == key.array && s->key.op == key.op) {
		rt_bump(s->io.bios, 1);
		rt_bump(s->io.bytes, bytes);
		return 0;
	}
	__builtin_memcpy(&old_key, (void *)&s->key, sizeof(old_key));
	__builtin_memcpy(&old, (void *)&s->io, sizeof(old));
	version = s->version_first + 1;
	s->version_last = version;
	barrier();
	s->address = inode;
	__builtin_memcpy((void *)&s->key, &key, sizeof(key));
	s->io.bytes = bytes;
	s->io.bios = 1;
	barrier();
	s->version_first = version;
	if (old.bios)
		add_file(&old_key, &old);
	return 0;
}
