-- On which arrays does md write much for itself? Decides where to make the write-intent bitmap's chunk larger (`mdadm --grow --bitmap-chunk`).
-- The share of md's bitmaps and superblocks in the writes of the members. Arrays with less than a tenth are left out.
create or replace temporary view md_writes as
with arrays as (
  select r.host_name, r.host_id, r.array, r.level, sum(r.count) as writes,
    sum(case when r.origin = 'md_bitmap' then r.count else 0 end) as bitmap_writes,
    sum(case when r.origin in ('md_bitmap', 'md_superblock') then r.count else 0 end) as md_writes
  from requests r
  where r.op = 'write'
  group by r.host_name, r.host_id, r.array, r.level)
select a.host_name, a.host_id, a.array, a.level, a.writes, a.bitmap_writes, a.md_writes, a.md_writes / cast(a.writes as double) as share
from arrays a
where a.md_writes * 10 >= a.writes and a.md_writes > 0
order by share desc, a.host_name, a.host_id, a.array, a.level;
