-- Which firmware of a model answers slower than another? Decides which firmware to install, and which to keep away from.
-- Writes, of firmware with 100 of them, of models with several. The model is that of the host's newest inventory.
create or replace temporary view firmware as
with models as (
  select distinct i.machine, i.array, i.member, i.model, i.firmware
  from newest_inventory i
  where i.kind = 'member' and i.model is not null and i.firmware is not null),
versions as (
  select m.model, m.firmware, count(distinct m.machine) as hosts, count(*) as writes,
    percentile_disc(0.5) within group (order by r.device_us) as p50_us,
    percentile_disc(0.99) within group (order by r.device_us) as p99_us
  from requests r
  join models m on m.machine = coalesce(r.host_id, r.host_name) and m.array = r.array and m.member = r.member
  where r.kind = 'request' and r.op = 'write' and r.device_us is not null
  group by m.model, m.firmware
  having count(*) >= 100),
best as (
  select v.model, count(*) as versions, min(v.p50_us) as p50_us
  from versions v
  group by v.model)
select v.model, v.firmware, v.hosts, v.writes, v.p50_us, v.p99_us, v.p50_us / nullif(cast(b.p50_us as double), 0) as times_fastest
from versions v
join best b on b.model = v.model
where b.versions >= 2
order by times_fastest desc, v.model, v.firmware;
