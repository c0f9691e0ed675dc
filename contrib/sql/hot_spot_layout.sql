-- Which hosts have the hot-spot layout? Decides which filesystems to make again with the options that `raidtrace layout` recommends.
-- Skew: metadata bytes of the layout on the busiest member over the mean of all members. A small filesystem has so few bitmaps that they
-- are always on few members; doctor reports the others (`layout-skew`). Of each host, its newest inventory counts.
create or replace temporary view hot_spot_layout as
with newest as (
  select coalesce(i.host_id, i.host_name) as machine, max(i.time) as time
  from inventory i
  group by coalesce(i.host_id, i.host_name))
select i.host_name, i.host_id, i.array, i.level, i.chunk_bytes, i.filesystem, i.fs_type, i.mounted_on, i.skew
from inventory i
join newest n on n.machine = coalesce(i.host_id, i.host_name) and n.time = i.time
join inventory f on coalesce(f.host_id, f.host_name) = n.machine and f.time = n.time and f.array = i.array and f.filesystem = i.filesystem
where i.kind = 'filesystem' and f.kind = 'finding' and f.finding = 'layout-skew'
order by i.skew desc, i.host_name, i.host_id, i.filesystem;
