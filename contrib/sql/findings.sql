-- Which findings of doctor are on how many hosts? Decides which setting to change in the fleet's configuration.
-- Of each host, its newest inventory counts.
create or replace temporary view findings as
with newest as (
  select coalesce(i.host_id, i.host_name) as machine, max(i.time) as time
  from inventory i
  group by coalesce(i.host_id, i.host_name))
select i.severity, i.finding, count(distinct n.machine) as hosts, count(*) as findings, min(i.title) as example
from inventory i
join newest n on n.machine = coalesce(i.host_id, i.host_name) and n.time = i.time
where i.kind = 'finding'
group by i.severity, i.finding
order by case i.severity when 'critical' then 0 when 'warning' then 1 else 2 end, hosts desc, i.finding;
