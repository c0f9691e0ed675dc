-- The table of serve --with-cgroups, for Spark SQL: after tables.spark.sql, if the dataset has it.
create or replace temporary view cgroups using parquet options (path 'fleet/cgroups', mergeSchema 'true');
-- A row for each cgroup that made another, or itself, wait in a minute. Engines differ in lists, so the list becomes rows here.
create or replace temporary view made_waits as
select c.host_name, c.host_id, c.date, c.time, c.array, c.cgroup, c.w.`by` as culprit, c.w.us as us
from (select host_name, host_id, date, time, `array`, cgroup, explode(made_wait) as w from cgroups) c;
