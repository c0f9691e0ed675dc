-- Which members are slower than their peers? Decides which disk to replace first.
-- A member's median and 99th percentile of writes against the median of its array's members. Needs 100 writes of each member, and 3 times the time.
-- Only writes of the newest day of each array count.
create or replace temporary view slow_members as
with days as (
  select w.*, max(w.date) over (partition by w.machine, w.array) as newest
  from write_times w),
sums as (
  select d.*, sum(d.writes) over (partition by d.machine, d.array, d.member order by d.us) as upto,
    sum(d.writes) over (partition by d.machine, d.array, d.member) as total
  from days d
  where d.date = d.newest),
members as (
  select s.machine, max(s.host_name) as host_name, max(s.host_id) as host_id, s.array, s.member, cast(sum(s.writes) as bigint) as writes,
    min(case when s.upto * 2 >= s.total then s.us end) as p50_us,
    min(case when s.upto * 100 >= s.total * 99 then s.us end) as p99_us
  from sums s
  group by s.machine, s.array, s.member
  having sum(s.writes) >= 100),
peers as (
  select m.machine, m.array, count(*) as members,
    percentile_disc(0.5) within group (order by m.p50_us) as p50_us,
    percentile_disc(0.5) within group (order by m.p99_us) as p99_us
  from members m
  group by m.machine, m.array)
select m.host_name, m.host_id, m.array, m.member, m.writes, m.p50_us, p.p50_us as peers_p50_us, m.p99_us, p.p99_us as peers_p99_us,
  m.p99_us / nullif(cast(p.p99_us as double), 0) as times
from members m
join peers p on p.machine = m.machine and p.array = m.array
where p.members >= 2 and m.p99_us >= 3 * p.p99_us
order by times desc, m.host_name, m.host_id, m.array, m.member;
