-- The tables of the dataset in the directory fleet, for Spark SQL. Leave out a table without files.
set spark.sql.session.timeZone = UTC;
set spark.sql.sources.partitionColumnTypeInference.enabled = false;
create or replace temporary view requests using parquet options (path 'fleet/requests', mergeSchema 'true');
create or replace temporary view submissions using parquet options (path 'fleet/submissions', mergeSchema 'true');
create or replace temporary view intervals using parquet options (path 'fleet/intervals', mergeSchema 'true');
create or replace temporary view verdicts using parquet options (path 'fleet/verdicts', mergeSchema 'true');
create or replace temporary view operations using parquet options (path 'fleet/operations', mergeSchema 'true');
create or replace temporary view commits using parquet options (path 'fleet/commits', mergeSchema 'true');
create or replace temporary view inventory using parquet options (path 'fleet/inventory', mergeSchema 'true');
-- A row for each phase of a slow operation. Engines differ in lists, so the list becomes rows here.
create or replace temporary view phases as
select o.host_name, o.host_id, o.op, o.p.phase as phase, o.p.us as us, o.p.member as member
from (select host_name, host_id, op, explode(phases) as p from operations) o;
