"""The audit's checks as DuckDB would be asked for them: with plain windows, one question each.

They count what breaks a promise, without exemptions and evidence: less than the audit does, never more.
"""

from __future__ import annotations

VIEW = """
create view e as select * from read_parquet('{files}', union_by_name = true);
create table cfg as
  select run_id, case_id, "group", bool_and(cfg['ordered'] = 'true') as ordered,
         max(try_cast(cfg['max_attempts'] as int)) as max_attempts
  from e where kind = 'config' and "group" is not null group by all;
"""
"""What they begin with: the files, and the few settings of groups."""

LEASES = """
with r as (
  select e.*, c.ordered, c.max_attempts,
         case when kind = 'deliver' then t_wall_us else coalesce(invoked_us, t_wall_us) end as moment,
         case when kind = 'deliver' then seq else coalesce(invoked_seq, seq) end as at_seq,
         case when c.ordered then message_id || broker || queue || '/' || "offset" else message_id end as message
  from e left join cfg c using (run_id, case_id, "group")
  where kind in ('deliver', 'ack', 'change', 'forward', 'dlq.deliver') and "group" is not null
    and message_id is not null and coalesce(phase, '') <> 'invoke'
), n as (
  select *, count(*) filter (kind = 'deliver') over w as number
  from r window w as (partition by run_id, case_id, observer, topic, "group", message order by moment, at_seq
                      rows unbounded preceding)
), d as (
  select run_id, case_id, observer, topic, "group", message, number,
         any_value(message_group) filter (kind = 'deliver') as message_group,
         any_value(broker) filter (kind = 'deliver') as broker, any_value(queue) filter (kind = 'deliver') as queue,
         any_value("offset") filter (kind = 'deliver') as "offset", any_value(batch) filter (kind = 'deliver') as batch,
         any_value(recorder) filter (kind = 'deliver') as recorder, any_value(ordered) as ordered,
         any_value(max_attempts) as max_attempts, any_value(attempt) filter (kind = 'deliver') as attempt,
         any_value(due_us) filter (kind = 'deliver') as due, any_value(tag) filter (kind = 'deliver') as tag,
         any_value(filter) filter (kind = 'deliver') as wanted,
         min(moment) filter (kind = 'deliver') as hi, min(at_seq) filter (kind = 'deliver') as seq,
         min(coalesce(invoked_us, t_wall_us)) filter (kind = 'deliver') as lo,
         any_value(invisible_ms) filter (kind = 'deliver') * 1000 as hold,
         arg_max(moment + invisible_ms * 1000, moment) filter (kind = 'change' and phase = 'ok') as moved,
         min(t_wall_us) filter (kind = 'ack' and phase = 'ok') as acked,
         min(moment) filter (kind in ('ack', 'forward') and phase <> 'fail' or kind = 'dlq.deliver') as ended,
         count(*) filter (kind = 'dlq.deliver') as dead
  from n where number > 0 group by all
), s as (
  select *, coalesce(moved, lo + hold) as until,
         lead(hi) over m as n_hi, lead(attempt) over m as n_attempt,
         min(ended) over (partition by run_id, case_id, observer, topic, "group", message) as done
  from d window m as (partition by run_id, case_id, observer, topic, "group", message order by number)
)
"""

PLAIN = {
    "gates": """select recorder, boot, count(*), min(seq), max(seq), sum(seq), bit_xor(seq),
         max(t_wall_us - t_mono_ns // 1000) - min(t_wall_us - t_mono_ns // 1000),
         count(*) filter (kind = 'recorder.end'), max(server_deliver_us - t_wall_us)
      from e group by all""",
    "leases": LEASES
    + """select observer, "group", attempt, count(*), count(n_hi),
         count(*) filter (n_hi < until - 100000), count(*) filter (acked <= until and n_hi is not null),
         count(*) filter (n_hi > until + 15000000), count(*) filter (n_attempt <> attempt + 1),
         count(*) filter (attempt > max_attempts and not ordered), count(*) filter (hi < due - 100000),
         count(*) filter (wanted like 'TAG:%' and wanted <> 'TAG:*'
                          and not list_contains(string_split(substr(wanted, 5), '||'), coalesce(tag, ''))),
         sum(dead), sum(n_hi - until), min(n_hi - until), max(n_hi - until)
      from s group by all""",
    "order": LEASES
    + """, o as (
        select *, max(least(coalesce(n_hi, 1::bigint << 62), coalesce(done, 1::bigint << 62))) over b as opened,
               max("offset") over b as passed
        from s where ordered and message_group is not null
        window b as (partition by run_id, case_id, observer, topic, "group", message_group, broker, queue
                     order by hi, seq rows between unbounded preceding and 1 preceding))
      select count(*) filter (passed > "offset"), count(*) filter (opened > hi) from o where number = 1""",
    "origin": """select count(*), count(*) filter (sent <> given), count(*) filter (sends = 0) from (
        select run_id, case_id, observer, message_id, count(*) filter (kind = 'send') as sends,
               min(body_sha) filter (kind = 'send') as sent, max(body_sha) filter (kind = 'deliver') as given
        from e where kind in ('send', 'deliver') and message_id is not null group by all)
      where given is not null""",
    "loss": """with w as (
        select run_id, case_id, observer, topic, broker, queue, "group", min("offset") as lowest,
               max("offset") as highest, max(filter) as wanted
        from e where kind = 'deliver' and attempt = 1 and coalesce(role, '') <> 'pull' group by all
      ), g as (select distinct run_id, case_id, observer, "group", message_id from e where kind = 'deliver')
      select count(*), count(*) filter (g.message_id is null)
      from e join w using (run_id, case_id, observer, topic, broker, queue)
      left join g on g.run_id = e.run_id and g.case_id = e.case_id and g.observer = e.observer
        and g."group" = w."group" and g.message_id = e.message_id
      where kind = 'send' and phase = 'ok' and e.due_us is null and e.tx_id is null
        and e."offset" between lowest and highest
        and (w.wanted = 'TAG:*' or list_contains(string_split(substr(w.wanted, 5), '||'), coalesce(e.tag, '')))""",
    "places": """select count(*), count(*) filter (ids > 1) from (
        select count(distinct message_id) as ids from e
        where "offset" is not null and queue is not null and message_id is not null
          and (kind = 'send' and phase = 'ok' and due_us is null and tx_id is null
               or kind = 'deliver' and attempt = 1)
        group by run_id, case_id, observer, topic, broker, queue, "offset")""",
    "serial sends": """select count(*) filter (o <= p and ended < called) from (
        select "offset" as o, coalesce(invoked_us, t_wall_us) as called, lag("offset") over w as p,
               lag(t_wall_us) over w as ended
        from e where kind = 'send' and phase = 'ok' and "offset" is not null and due_us is null and tx_id is null
        window w as (partition by run_id, case_id, observer, topic, broker, queue, recorder, client_id
                     order by t_wall_us, seq))""",
    "handles": """select count(*), count(*) filter (ids > 1) from (
        select count(distinct message_id) as ids from e
        where delivery is not null and (kind = 'deliver' or kind in ('ack', 'change', 'forward') and phase = 'ok')
        group by run_id, case_id, observer, delivery)""",
    "answers": """select count(*), count(*) filter (lowest <> asked or highest <> asked) from (
        select min(topic) filter (kind = 'receive') as asked, min(topic) filter (kind = 'deliver') as lowest,
               max(topic) filter (kind = 'deliver') as highest
        from e where kind = 'receive' and op_id is not null or kind = 'deliver' and batch is not null
        group by recorder, boot, coalesce(batch, op_id))""",
    "fairness": """select count(*), count(*) filter (begin_us - greatest(lag_us, ready) >= 60000000) from (
        select min(t_wall_us) as begin_us, min(greatest(store_us, coalesce(due_us, 0))) as ready,
          lag(max(t_wall_us)) over (partition by run_id, case_id, observer, topic, "group", broker, queue
                                    order by t_wall_us // 30000000) as lag_us
        from e where kind = 'deliver' and attempt = 1 and store_us is not null
        group by run_id, case_id, observer, topic, "group", broker, queue, t_wall_us // 30000000)""",
}
"""By what they judge: one question each, over texts and wide rows, as one would write it."""
