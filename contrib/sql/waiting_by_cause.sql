-- How long did storage make tasks wait, by day and cause? Decides which cause is worth a project.
create or replace temporary view waiting_by_cause as
select cast(v.date as date) as day, v.cause, count(distinct coalesce(v.host_id, v.host_name)) as hosts, sum(v.duration_us) / 1e6 as seconds,
  max(v.waiting_us) as waiting_us
from verdicts v
where v.severity <> 'none'
group by cast(v.date as date), v.cause
order by day desc, seconds desc, v.cause;
