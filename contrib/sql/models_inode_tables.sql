-- Which disk model is slow under writes of inode tables? Decides which model not to buy again.
-- Writes of ext4's inode tables and XFS's inode clusters. Models with fewer than 100 are left out. The model is that of the host's newest inventory.
create or replace temporary view models_inode_tables as
with models as (
  select distinct i.machine, i.array, i.member, i.model
  from newest_inventory i
  where i.kind = 'member' and i.model is not null)
select m.model, count(distinct m.machine) as hosts, count(*) as writes,
  percentile_disc(0.5) within group (order by r.device_us) as p50_us,
  percentile_disc(0.99) within group (order by r.device_us) as p99_us
from requests r
join models m on m.machine = coalesce(r.host_id, r.host_name) and m.array = r.array and m.member = r.member
where r.kind = 'request' and r.op = 'write' and r.origin in ('inode_table', 'inode_cluster') and r.device_us is not null
group by m.model
having count(*) >= 100
order by p50_us desc, m.model;
