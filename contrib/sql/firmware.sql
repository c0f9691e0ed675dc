-- Which firmware of a model answers slower than another? Decides which firmware to install, and which to keep away from.
-- Writes, of firmware with 100 of them, of models with several. The model is that of the host's newest inventory.
create or replace temporary view firmware as
with models as (
  select distinct i.machine, i.array, i.member, i.model, i.firmware
  from newest_inventory i
  where i.kind = 'member' and i.model is not null and i.firmware is not null),
sums as (
  select m.model, m.firmware, m.machine, w.us, w.writes,
    sum(w.writes) over (partition by m.model, m.firmware order by w.us) as upto,
    sum(w.writes) over (partition by m.model, m.firmware) as total
  from write_times w
  join models m on m.machine = w.machine and m.array = w.array and m.member = w.member),
versions as (
  select s.model, s.firmware, count(distinct s.machine) as hosts, cast(sum(s.writes) as bigint) as writes,
    min(case when s.upto * 2 >= s.total then s.us end) as p50_us,
    min(case when s.upto * 100 >= s.total * 99 then s.us end) as p99_us
  from sums s
  group by s.model, s.firmware
  having sum(s.writes) >= 100),
best as (
  select v.model, count(*) as versions, min(v.p50_us) as p50_us
  from versions v
  group by v.model)
select v.model, v.firmware, v.hosts, v.writes, v.p50_us, v.p99_us, v.p50_us / nullif(cast(b.p50_us as double), 0) as times_fastest
from versions v
join best b on b.model = v.model
where b.versions >= 2
order by times_fastest desc, v.model, v.firmware;
