-- Which disk model is slow under writes of inode tables? Decides which model not to buy again.
-- Writes of ext4's inode tables and XFS's inode clusters. Models with fewer than 100 are left out. The model is that of the host's newest inventory.
create or replace temporary view models_inode_tables as
with models as (
  select distinct i.machine, i.array, i.member, i.model
  from newest_inventory i
  where i.kind = 'member' and i.model is not null),
sums as (
  select m.model, m.machine, w.us, w.writes,
    sum(w.writes) over (partition by m.model order by w.us) as upto,
    sum(w.writes) over (partition by m.model) as total
  from write_times w
  join models m on m.machine = w.machine and m.array = w.array and m.member = w.member
  where w.origin in ('inode_table', 'inode_cluster'))
select s.model, count(distinct s.machine) as hosts, cast(sum(s.writes) as bigint) as writes,
  min(case when s.upto * 2 >= s.total then s.us end) as p50_us,
  min(case when s.upto * 100 >= s.total * 99 then s.us end) as p99_us
from sums s
group by s.model
having sum(s.writes) >= 100
order by p50_us desc, s.model;
