-- Which disk models' drivers give requests back? Decides where to look for a bad cable, controller or queue depth.
-- A requeued request waits, and no member time shows it. The model is that of the host's newest inventory.
create or replace temporary view requeues as
with models as (
  select distinct i.machine, i.array, i.member, i.model
  from newest_inventory i
  where i.kind = 'member' and i.model is not null)
select m.model, count(distinct m.machine) as hosts, sum(i.requests) as requests, sum(coalesce(i.requeues, 0)) as requeues,
  sum(coalesce(i.requeues, 0)) / nullif(cast(sum(i.requests) as double), 0) as share,
  sum(coalesce(i.requeue_us, 0)) / nullif(cast(sum(i.requeues) as double), 0) as mean_us
from intervals i
join models m on m.machine = coalesce(i.host_id, i.host_name) and m.array = i.array and m.member = i.member
group by m.model
order by requeues desc, m.model;
