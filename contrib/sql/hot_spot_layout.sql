-- Which hosts have the hot-spot layout? Decides which filesystems to make again with the options that `raidtrace layout` recommends.
-- Skew: metadata bytes of the layout on the busiest member over the mean of all members. A small filesystem has so few bitmaps that they
-- are always on few members; doctor reports the others (`layout-skew`). In the newest inventory of each host.
create or replace temporary view hot_spot_layout as
select i.host_name, i.host_id, i.array, a.level, a.chunk_bytes, i.filesystem, i.fs_type, i.mounted_on, i.skew
from newest_inventory i
join newest_inventory a on a.machine = i.machine and a.array = i.array and a.kind = 'array'
join newest_inventory f on f.machine = i.machine and f.array = i.array and f.filesystem = i.filesystem
where i.kind = 'filesystem' and f.kind = 'finding' and f.finding = 'layout-skew'
order by i.skew desc, i.host_name, i.host_id, i.filesystem;
