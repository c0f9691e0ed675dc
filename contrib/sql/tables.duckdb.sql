-- The tables of the dataset in the directory fleet, for DuckDB. Leave out a table without files.
set timezone = 'UTC';
create or replace temporary view requests as from read_parquet('fleet/requests/*/*/*.parquet', union_by_name = true, hive_types = {'date': date, 'host': varchar});
create or replace temporary view submissions as from read_parquet('fleet/submissions/*/*/*.parquet', union_by_name = true, hive_types = {'date': date, 'host': varchar});
create or replace temporary view intervals as from read_parquet('fleet/intervals/*/*/*.parquet', union_by_name = true, hive_types = {'date': date, 'host': varchar});
create or replace temporary view verdicts as from read_parquet('fleet/verdicts/*/*/*.parquet', union_by_name = true, hive_types = {'date': date, 'host': varchar});
create or replace temporary view operations as from read_parquet('fleet/operations/*/*/*.parquet', union_by_name = true, hive_types = {'date': date, 'host': varchar});
create or replace temporary view commits as from read_parquet('fleet/commits/*/*/*.parquet', union_by_name = true, hive_types = {'date': date, 'host': varchar});
create or replace temporary view inventory as from read_parquet('fleet/inventory/*/*/*.parquet', union_by_name = true, hive_types = {'date': date, 'host': varchar});
-- A row for each phase of a slow operation. Engines differ in lists, so the list becomes rows here.
create or replace temporary view phases as
select o.host_name, o.host_id, o.op, o.p.phase as phase, o.p.us as us, o.p.member as member
from (select host_name, host_id, op, unnest(phases) as p from operations) o;
