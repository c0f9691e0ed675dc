-- On which arrays did the 99th percentile of writes rise from a day to the next? Decides what to look at before users complain.
-- Half as much again, or more, with 100 writes on each of the two days. The day before is the last with recordings.
create or replace temporary view rising_writes as
with sums as (
  select w.*, sum(w.writes) over (partition by w.machine, w.array, w.date order by w.us) as upto,
    sum(w.writes) over (partition by w.machine, w.array, w.date) as total
  from write_times w),
days as (
  select s.machine, max(s.host_name) as host_name, max(s.host_id) as host_id, s.array, cast(s.date as date) as day,
    min(case when s.upto * 100 >= s.total * 99 then s.us end) as p99_us
  from sums s
  group by s.machine, s.array, cast(s.date as date)
  having sum(s.writes) >= 100),
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
