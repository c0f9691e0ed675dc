-- Which members are slower than their peers? Decides which disk to replace first.
-- A member's median and 99th percentile of writes against the median of its array's members. Needs 100 writes of each member, and 3 times the time.
-- Only requests of the newest day of each array count.
create or replace temporary view slow_members as
with days as (
  select coalesce(r.host_id, r.host_name) as machine, r.array, max(r.date) as date
  from requests r
  group by coalesce(r.host_id, r.host_name), r.array),
members as (
  select d.machine, max(r.host_name) as host_name, max(r.host_id) as host_id, r.array, r.member, count(*) as writes,
    percentile_disc(0.5) within group (order by r.device_us) as p50_us,
    percentile_disc(0.99) within group (order by r.device_us) as p99_us
  from requests r
  join days d on d.machine = coalesce(r.host_id, r.host_name) and d.array = r.array and d.date = r.date
  where r.kind = 'request' and r.op = 'write' and r.device_us is not null
  group by d.machine, r.array, r.member
  having count(*) >= 100),
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
