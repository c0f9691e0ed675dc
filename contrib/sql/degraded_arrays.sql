-- Which arrays were degraded, or rebuilt or checked, and what did it cost? Decides which to repair first, and when to run checks.
-- The mean of the 99th percentiles of writes, of intervals (10 s) with the state and of those in sync and idle. Null without such an interval.
create or replace temporary view degraded_arrays as
with times as (
  select i.host_name, i.host_id, i.array, i.level, i.recording, i.time, max(i.interval_us) as interval_us, max(i.array_health) as health,
    max(i.write_p99_us) as p99_us
  from intervals i
  group by i.host_name, i.host_id, i.array, i.level, i.recording, i.time)
select t.host_name, t.host_id, t.array, t.level, max(t.health) as health,
  sum(case when t.health is not null then t.interval_us end) / 1e6 as seconds,
  avg(case when t.health is not null then t.p99_us end) as p99_us,
  avg(case when t.health is null then t.p99_us end) as in_sync_p99_us
from times t
group by t.host_name, t.host_id, t.array, t.level
having count(t.health) > 0
order by seconds desc, t.host_name, t.host_id, t.array;
