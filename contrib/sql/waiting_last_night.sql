-- Where did storage make tasks wait last night, and why? Decides what to look at first in the morning.
-- The night: the 12 hours before the newest verdict of the fleet.
create or replace temporary view waiting_last_night as
select v.host_name, v.host_id, v.array, v.severity, v.cause, v.cause_name, min(v.time) as first, sum(v.duration_us) / 1e6 as seconds,
  max(v.waiting_us) as waiting_us
from verdicts v
where v.severity <> 'none' and v.until > (select max(w.until) from verdicts w) - interval '12' hour
group by v.host_name, v.host_id, v.array, v.severity, v.cause, v.cause_name
order by seconds desc, waiting_us desc, v.host_name, v.host_id, v.array, v.cause, v.cause_name;
