-- Which cgroup made which other wait for storage, and how long? Decides which tenant to limit (io.max), or to move to other disks.
-- Only where serve runs with --with-cgroups. Pods and containers have a name of their own on each host and after each start.
create or replace temporary view waits_by_tenant as
select w.culprit, w.cgroup, count(distinct coalesce(w.host_id, w.host_name)) as hosts, sum(w.us) / 1e6 as seconds
from made_waits w
where w.culprit <> w.cgroup
group by w.culprit, w.cgroup
order by seconds desc, w.culprit, w.cgroup;
