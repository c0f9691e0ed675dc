-- The tables of the dataset in the directory fleet, for Spark SQL. Leave out a table without files.
set spark.sql.session.timeZone = UTC;
set spark.sql.sources.partitionColumnTypeInference.enabled = false;
create or replace temporary view requests using parquet options (path 'fleet/requests', mergeSchema 'true');
create or replace temporary view submissions using parquet options (path 'fleet/submissions', mergeSchema 'true');
create or replace temporary view all_intervals using parquet options (path 'fleet/intervals', mergeSchema 'true');
-- Intervals of a recording only where serve has none of the same minute, as of a dump of this serve: they would count twice.
create or replace temporary view intervals as
select i.* from all_intervals i
where i.recording like '%-serve' or not exists (
  select 1 from all_intervals s
  where s.recording like '%-serve' and s.host_name = i.host_name and s.host_id is not distinct from i.host_id and s.array = i.array
    and date_trunc('minute', s.time) = date_trunc('minute', i.time));
create or replace temporary view all_verdicts using parquet options (path 'fleet/verdicts', mergeSchema 'true');
-- Likewise, verdicts only of times for which serve has none.
create or replace temporary view verdicts as
select v.* from all_verdicts v
where v.recording like '%-serve' or not exists (
  select 1 from all_verdicts s
  where s.recording like '%-serve' and s.host_name = v.host_name and s.host_id is not distinct from v.host_id and s.array = v.array
    and s.time < v.until and s.until > v.time);
create or replace temporary view operations using parquet options (path 'fleet/operations', mergeSchema 'true');
create or replace temporary view commits using parquet options (path 'fleet/commits', mergeSchema 'true');
create or replace temporary view inventory using parquet options (path 'fleet/inventory', mergeSchema 'true');
-- Writes of each member, day and origin by their time in the device, in two digits: a percentile needs few rows then, however many requests there are.
create or replace temporary view write_times as
select coalesce(r.host_id, r.host_name) as machine, r.host_name, r.host_id, r.array, r.member, r.date, r.origin,
  case when r.device_us < 100 then r.device_us
    when r.device_us < 1000 then r.device_us - r.device_us % 10
    when r.device_us < 10000 then r.device_us - r.device_us % 100
    when r.device_us < 100000 then r.device_us - r.device_us % 1000
    when r.device_us < 1000000 then r.device_us - r.device_us % 10000
    when r.device_us < 10000000 then r.device_us - r.device_us % 100000
    else r.device_us - r.device_us % 1000000 end as us,
  count(*) as writes
from requests r
where r.kind = 'request' and r.op = 'write' and r.device_us is not null
group by 1, 2, 3, 4, 5, 6, 7, 8;
-- The rows of each machine's newest inventory. A machine is its host_id, or its name if that is null.
create or replace temporary view newest_inventory as
select i.*, n.machine
from inventory i
join (select coalesce(host_id, host_name) as machine, max(time) as time from inventory group by coalesce(host_id, host_name)) n
  on n.machine = coalesce(i.host_id, i.host_name) and n.time = i.time;
-- A row for each phase of a slow operation. Engines differ in lists, so the list becomes rows here.
create or replace temporary view phases as
select o.host_name, o.host_id, o.op, o.p.phase as phase, o.p.us as us, o.p.member as member
from (select host_name, host_id, op, explode(phases) as p from operations) o;
