-- What do slow fsyncs wait for? Decides between faster flushes (disks), less data before the fsync (the application), and a larger journal.
-- Needs recordings made with `record --slow`.
create or replace temporary view fsync_phases as
select p.phase, count(distinct coalesce(p.host_id, p.host_name)) as hosts, count(*) as operations, sum(p.us) as us,
  percentile_disc(0.99) within group (order by p.us) as p99_us
from phases p
where p.op in ('fsync', 'fdatasync')
group by p.phase
order by us desc, p.phase;
