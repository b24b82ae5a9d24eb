-- A machine takes back what it sent: it may not read other mailboxes, so the database does it for it. The number of its
-- envelopes among these ids that are left proves it.
CREATE FUNCTION baton.unsend(ids text[]) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH gone AS (
    DELETE FROM baton.messages WHERE fleet = baton.my_fleet() AND sender = baton.my_name() AND id = ANY (ids) RETURNING 1
  )
  SELECT count(*) FROM gone
$$;
CREATE FUNCTION baton.unfetched(ids text[]) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FROM baton.messages WHERE fleet = baton.my_fleet() AND sender = baton.my_name() AND id = ANY (ids)
$$;
CREATE FUNCTION baton.note_purge(channel text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO baton.audit (fleet, what, about)
  SELECT baton.my_fleet(), 'purged', baton.my_name() || ' ' || left(channel, 200) WHERE baton.my_fleet() IS NOT NULL
$$;
REVOKE ALL ON FUNCTION baton.unsend(text[]), baton.unfetched(text[]), baton.note_purge(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION baton.unsend(text[]), baton.unfetched(text[]), baton.note_purge(text) TO baton_device;
