-- Which cgroups submit most bytes? Decides which service to limit, move, or talk about.
-- Writeback and journals submit what other tasks have dirtied: they are rows of their own.
create or replace temporary view top_cgroups as
select coalesce(s.role, nullif(s.cgroup, '/'), s.comm, 'unknown') as cgroup, count(distinct coalesce(s.host_id, s.host_name)) as hosts,
  sum(s.bytes) as bytes, sum(case when s.op = 'write' then s.bytes else 0 end) as write_bytes, sum(s.count) as submissions
from submissions s
group by coalesce(s.role, nullif(s.cgroup, '/'), s.comm, 'unknown')
order by bytes desc, cgroup;
