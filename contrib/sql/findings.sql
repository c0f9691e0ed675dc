-- Which findings of doctor are on how many hosts? Decides which setting to change in the fleet's configuration.
-- In the newest inventory of each host.
create or replace temporary view findings as
select i.severity, i.finding, count(distinct i.machine) as hosts, count(*) as findings, min(i.title) as example
from newest_inventory i
where i.kind = 'finding'
group by i.severity, i.finding
order by case i.severity when 'critical' then 0 when 'warning' then 1 else 2 end, hosts desc, i.finding;
