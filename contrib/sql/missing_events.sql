-- Which hosts lost events, or have requests that were not counted? Decides whose figures not to trust, and where to record with a larger buffer.
-- Lost events are those of the host: the same in all rows of an interval. Uncounted requests are a lower bound.
create or replace temporary view missing_events as
with times as (
  select i.host_name, i.host_id, i.recording, i.time, max(i.lost_events) as lost_events, sum(i.requests) as requests,
    sum(coalesce(i.uncounted, 0)) as uncounted
  from intervals i
  group by i.host_name, i.host_id, i.recording, i.time)
select t.host_name, t.host_id, count(distinct t.recording) as recordings, sum(t.requests) as requests, sum(t.uncounted) as uncounted,
  sum(t.lost_events) as lost_events
from times t
group by t.host_name, t.host_id
having sum(t.uncounted) > 0 or sum(t.lost_events) > 0
order by lost_events desc, uncounted desc, t.host_name, t.host_id;
