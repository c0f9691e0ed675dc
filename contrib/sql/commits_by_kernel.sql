-- Did the new kernel make journal commits slower? Decides whether the rollout of a kernel goes on.
-- Record: the time for the commit record, with its flush. Kernels with fewer than 100 commits are left out.
-- times_fastest: the median over that of the kernel with the lowest one. Compare kernels whose hosts have the same disks.
create or replace temporary view commits_by_kernel as
with kernels as (
  select c.kernel, count(distinct coalesce(c.host_id, c.host_name)) as hosts, count(*) as commits,
    percentile_disc(0.5) within group (order by c.total_us) as p50_us,
    percentile_disc(0.99) within group (order by c.total_us) as p99_us,
    percentile_disc(0.99) within group (order by c.state_commit_record_us) as record_p99_us
  from commits c
  group by c.kernel
  having count(*) >= 100)
select k.kernel, k.hosts, k.commits, k.p50_us, k.p99_us, k.record_p99_us,
  k.p50_us / nullif(cast(min(k.p50_us) over () as double), 0) as times_fastest
from kernels k
order by k.p50_us desc, k.kernel;
