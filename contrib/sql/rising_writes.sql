-- On which arrays did the 99th percentile of writes rise from a day to the next? Decides what to look at before users complain.
-- Half as much again, or more, with 100 writes on each of the two days. The day before is the last with recordings.
create or replace temporary view rising_writes as
with days as (
  select coalesce(r.host_id, r.host_name) as machine, max(r.host_name) as host_name, max(r.host_id) as host_id, r.array,
    cast(r.date as date) as day, count(*) as writes, percentile_disc(0.99) within group (order by r.device_us) as p99_us
  from requests r
  where r.kind = 'request' and r.op = 'write' and r.device_us is not null
  group by coalesce(r.host_id, r.host_name), r.array, cast(r.date as date)
  having count(*) >= 100),
pairs as (
  select d.host_name, d.host_id, d.array, d.day, d.p99_us,
    lag(d.day) over (partition by d.machine, d.array order by d.day) as day_before,
    lag(d.p99_us) over (partition by d.machine, d.array order by d.day) as p99_before_us
  from days d)
select p.host_name, p.host_id, p.array, p.day_before, p.day, p.p99_before_us, p.p99_us,
  p.p99_us / nullif(cast(p.p99_before_us as double), 0) as times
from pairs p
where p.p99_us * 2 >= p.p99_before_us * 3
order by times desc, p.host_name, p.host_id, p.array, p.day;
