//! Fields of the kernel's structures that the programs of [`super::plan`] read. The programs of a
//! kernel that lacks one of them load, apart from those of the first entry: they read 0, or leave
//! out the figure. `tools/btf/selftest` and `tests/missing_fields.rs` check the list.

/// Figures, each with the fields that it needs. Nothing can be traced without those of the first
/// entry. `a|b`: the kernel has one of these. `?a`: needed if the kernel has the structure.
pub const LOST: [(&str, &str); 13] = [
    (
        "",
        "request.__sector request.__data_len request.cmd_flags request.bio request.biotail \
         request.q request.rq_disk|request_queue.disk gendisk.major gendisk.first_minor \
         bio.bi_disk|bio.bi_bdev bio.bi_disk|block_device.bd_disk bio.bi_iter \
         bio.bi_iter.bi_sector \
         bio.bi_iter.bi_size bio.bi_iter.bi_idx bio.bi_io_vec bio.bi_next bio.bi_opf \
         bio.bi_end_io bio_vec.bv_page bio_vec.bv_len bio_vec.bv_offset buffer_head.b_this_page \
         address_space.host \
         request.tag request.mq_hctx blk_mq_hw_ctx.queue_num request.start_time_ns \
         request.nr_phys_segments request.flush.list|request.queuelist \
         bio.bi_disk|block_device.bd_start_sect inode.i_mode task_struct.flags task_struct.pid \
         task_struct.tgid task_struct.comm \
         timespec64.tv_sec",
    ),
    (
        "origins of flushes",
        "blk_mq_hw_ctx.fq blk_flush_queue.flush_queue blk_flush_queue.flush_running_idx",
    ),
    ("flushes before writes of device mapper's devices, as writes of 0 bytes", "request.deadline"),
    (
        "files of buffered IO, and origins of ext4's blocks without a fixed location (they are \
         unknown)",
        "page.mapping page.compound_head|page.compound_info \
         bvec_iter.bi_bvec_done|bvec_iter.bi_offset",
    ),
    (
        "origins of some of ext4's blocks",
        "buffer_head.b_data buffer_head.b_page buffer_head.b_size page.private bio.bi_private",
    ),
    (
        "files of direct IO",
        "iomap_dio.iocb kiocb.ki_filp file.f_inode bio.bi_pool ?iomap_dio_simple.bio \
         ?iomap_dio_simple.iocb",
    ),
    ("files of writes of encrypted files", "?ext4_io_end.inode"),
    ("pages of large folios that tasks dirty", "?folio._nr_pages|folio._folio_nr_pages"),
    (
        "kinds of XFS's metadata",
        "?xfs_buf.b_maps ?xfs_buf.b_ops ?xfs_buf_log_item.bli_buf ?xfs_buf_ops.magic \
         ?xfs_buftarg.bt_dev",
    ),
    ("files", "inode.i_ino inode.i_generation inode.i_sb super_block.s_dev"),
    (
        "names of deleted files",
        "inode.i_dentry.first inode.i_nlink dentry.d_parent dentry.d_inode dentry.d_name.name \
         dentry.d_u.d_alias|dentry.d_alias",
    ),
    (
        "work of kworkers",
        "task_struct.worker_private|task_struct.set_child_tid kthread.data worker.desc",
    ),
    (
        "tasks whose IO a cgroup's limit delays",
        "iomap_dio.submit.waiter iomap_dio.wait_for_completion completion.wait.task_list \
         list_head.next swait_queue.task swait_queue.task_list task_struct.cgroups \
         css_set.dfl_cgrp cgroup.kn kernfs_node.id bio.bi_blkg blkcg_gq.blkcg blkcg.css.cgroup",
    ),
];

/// For each entry of [`LOST`], the first field that the kernel lacks.
pub type Missing = [Option<&'static str>; LOST.len()];

/// `has`: true if the kernel has the field, or the structure if there is no dot.
pub(super) fn missing(has: impl Fn(&str) -> bool) -> Missing {
    let one = |field: &str| match field.strip_prefix('?') {
        Some(field) => has(field) || !field.split_once('.').is_some_and(|(of, _)| has(of)),
        None => has(field),
    };
    LOST.map(|(_, fields)| fields.split(' ').find(|field| !field.split('|').any(one)))
}
