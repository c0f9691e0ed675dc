-- How many bytes do members write for a byte that is submitted, by level? Decides the level of new hosts, and the chunk of md's bitmaps.
-- written: bytes that members wrote for one submitted byte, of which parity, and md's bitmaps and superblocks. read: what parity needed.
-- resync is not in written. A level is that at the start of a recording.
create or replace temporary view write_amplification as
with submitted as (
  select s.level, count(distinct coalesce(s.host_id, s.host_name)) as hosts, sum(s.bytes) as bytes
  from submissions s
  where s.op = 'write' and s.level is not null
  group by s.level),
members as (
  select r.level,
    sum(case when r.op = 'write' and r.origin <> 'resync' then r.bytes else 0 end) as written,
    sum(case when r.op = 'write' and r.origin = 'parity' then r.bytes else 0 end) as parity,
    sum(case when r.op = 'write' and r.origin in ('md_bitmap', 'md_superblock') then r.bytes else 0 end) as md,
    sum(case when r.op = 'read' and r.origin = 'rmw_read' then r.bytes else 0 end) as reads,
    sum(case when r.origin = 'resync' then r.bytes else 0 end) as resync
  from requests r
  where r.level is not null
  group by r.level)
select s.level, s.hosts, s.bytes as submitted_bytes, m.written / cast(s.bytes as double) as written, m.parity / cast(s.bytes as double) as parity,
  m.md / cast(s.bytes as double) as md, m.reads / cast(s.bytes as double) as read, m.resync as resync_bytes
from submitted s
join members m on m.level = s.level
where s.bytes > 0
order by written desc, s.level;
