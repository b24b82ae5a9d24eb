-- The meeting place of a fleet's machines. Everything belongs to the role that ran `baton fleet init`; machines have a
-- role each, in the group baton_device, which owns nothing here and bypasses nothing: what they may see and change is in
-- the policies below, and a revoked machine matches none of them.

CREATE TABLE baton.fleets (
  fleet   text PRIMARY KEY CHECK (fleet ~ '^[0-9a-f]{16}$'),
  created timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row a machine. A heartbeat changes it in place: no index covers what it changes, and pages have room for it.
CREATE TABLE baton.devices (
  fleet         text NOT NULL REFERENCES baton.fleets,
  name          text NOT NULL CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'),
  role          text NOT NULL UNIQUE,
  card          text CHECK (octet_length(card) <= 4096),
  tombstone     text,
  invited_until timestamptz NOT NULL,
  joined        timestamptz,
  revoked       timestamptz,
  gone          timestamptz,
  epoch         bigint NOT NULL DEFAULT 0,
  incarnation   text CHECK (octet_length(incarnation) <= 64),
  beats         bigint NOT NULL DEFAULT 0,
  beat          timestamptz,
  every_seconds integer NOT NULL DEFAULT 15,
  stopped       boolean NOT NULL DEFAULT false,
  PRIMARY KEY (fleet, name)
) WITH (fillfactor = 50);

-- The last place given in each machine's mailbox, and how far the machine has read.
CREATE TABLE baton.mailboxes (
  fleet   text NOT NULL,
  machine text NOT NULL,
  last    bigint NOT NULL DEFAULT 0,
  fetched bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (fleet, machine),
  FOREIGN KEY (fleet, machine) REFERENCES baton.devices (fleet, name) ON DELETE CASCADE
) WITH (fillfactor = 50);

CREATE TABLE baton.messages (
  fleet     text NOT NULL,
  recipient text NOT NULL,
  seq       bigint NOT NULL,
  id        text NOT NULL CHECK (octet_length(id) <= 120),
  sender    text NOT NULL,
  epoch     bigint NOT NULL,
  header    text NOT NULL CHECK (octet_length(header) <= 1024),
  sealed    bytea NOT NULL CHECK (octet_length(sealed) <= 4194304),
  signature bytea NOT NULL CHECK (octet_length(signature) = 64),
  stored    timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (fleet, recipient, seq),
  UNIQUE (fleet, id),
  FOREIGN KEY (fleet, recipient) REFERENCES baton.devices (fleet, name) ON DELETE CASCADE
);
-- Sealed bytes do not compress.
ALTER TABLE baton.messages ALTER COLUMN sealed SET STORAGE EXTERNAL;

CREATE TABLE baton.presence (
  fleet     text NOT NULL,
  machine   text NOT NULL,
  epoch     bigint NOT NULL,
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  body      text NOT NULL CHECK (octet_length(body) <= 262144),
  signature bytea NOT NULL CHECK (octet_length(signature) = 64),
  PRIMARY KEY (fleet, machine),
  FOREIGN KEY (fleet, machine) REFERENCES baton.devices (fleet, name) ON DELETE CASCADE
) WITH (fillfactor = 50);

-- The machine whose hooks may claim a handoff that was ever given to another machine.
CREATE TABLE baton.homes (
  fleet   text NOT NULL,
  handoff text NOT NULL CHECK (octet_length(handoff) <= 128),
  home    text NOT NULL,
  epoch   bigint NOT NULL,
  at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (fleet, handoff),
  FOREIGN KEY (fleet, home) REFERENCES baton.devices (fleet, name)
);

CREATE TABLE baton.audit (
  n     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  fleet text NOT NULL,
  at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor text NOT NULL DEFAULT session_user,
  what  text NOT NULL,
  about text NOT NULL
);

-- Who asks: told by the role that logged in, which a session cannot change. Nothing for a machine that was revoked, that
-- left, or whose invitation has expired.
CREATE FUNCTION baton.my_fleet() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT fleet FROM baton.devices
   WHERE role = session_user AND revoked IS NULL AND (joined IS NOT NULL OR invited_until > clock_timestamp())
$$;
CREATE FUNCTION baton.my_name() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT name FROM baton.devices
   WHERE role = session_user AND revoked IS NULL AND (joined IS NOT NULL OR invited_until > clock_timestamp())
$$;

-- The channel on which a machine is woken.
CREATE FUNCTION baton.wakes(fleet text, machine text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'b_' || substr(encode(sha256(convert_to(fleet || '/' || machine, 'UTF8')), 'hex'), 1, 32)
$$;

-- Admits a message: its sender is who it says and of the present incarnation, and it gets the next place in its mailbox.
-- The mailbox's row is locked until the sender commits, so places become visible in their order. Places follow the clock:
-- after a restore from a backup, no place is given again that somebody has already read past.
CREATE FUNCTION baton.admit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  sender baton.devices;
BEGIN
  SELECT * INTO sender FROM baton.devices WHERE role = session_user AND revoked IS NULL AND joined IS NOT NULL;
  IF NOT FOUND OR sender.fleet <> NEW.fleet OR sender.name <> NEW.sender THEN
    RAISE EXCEPTION 'this role does not speak for %', NEW.sender USING ERRCODE = 'BT001';
  END IF;
  IF sender.epoch <> NEW.epoch THEN
    RAISE EXCEPTION 'incarnation % of % is over', NEW.epoch, NEW.sender USING ERRCODE = 'BT002';
  END IF;
  UPDATE baton.mailboxes SET last = greatest(last + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
   WHERE fleet = NEW.fleet AND machine = NEW.recipient RETURNING last INTO NEW.seq;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no machine %', NEW.recipient USING ERRCODE = 'BT003';
  END IF;
  NEW.stored := clock_timestamp();
  PERFORM pg_notify(baton.wakes(NEW.fleet, NEW.recipient), '');
  RETURN NEW;
END
$$;
CREATE TRIGGER admit BEFORE INSERT ON baton.messages FOR EACH ROW EXECUTE FUNCTION baton.admit();

-- A machine's keys are set once. Its epoch never falls.
CREATE FUNCTION baton.keep_device() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.card IS NOT NULL AND NEW.card IS DISTINCT FROM OLD.card THEN
    RAISE EXCEPTION 'the keys of % are set', OLD.name USING ERRCODE = 'BT004';
  END IF;
  IF NEW.epoch < OLD.epoch OR NEW.beats < OLD.beats THEN
    RAISE EXCEPTION 'the counters of % only grow', OLD.name USING ERRCODE = 'BT004';
  END IF;
  IF OLD.joined IS NULL AND NEW.joined IS NOT NULL THEN
    INSERT INTO baton.mailboxes (fleet, machine) VALUES (NEW.fleet, NEW.name) ON CONFLICT DO NOTHING;
    INSERT INTO baton.audit (fleet, what, about) VALUES (NEW.fleet, 'joined', NEW.name);
  END IF;
  IF OLD.gone IS NULL AND NEW.gone IS NOT NULL THEN
    INSERT INTO baton.audit (fleet, what, about) VALUES (NEW.fleet, 'left', NEW.name);
  END IF;
  IF OLD.revoked IS NULL AND NEW.revoked IS NOT NULL THEN
    INSERT INTO baton.audit (fleet, what, about) VALUES (NEW.fleet, 'revoked', NEW.name);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER keep_device BEFORE UPDATE ON baton.devices FOR EACH ROW EXECUTE FUNCTION baton.keep_device();

CREATE FUNCTION baton.note_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO baton.audit (fleet, what, about)
  VALUES (NEW.fleet, 'moved', NEW.handoff || ' to ' || NEW.home || ' at ' || NEW.epoch);
  RETURN NEW;
END
$$;
CREATE TRIGGER note_move AFTER UPDATE ON baton.homes FOR EACH ROW EXECUTE FUNCTION baton.note_move();

CREATE FUNCTION baton.keep_audit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'BT005';
END
$$;
CREATE TRIGGER keep_audit BEFORE UPDATE OR DELETE OR TRUNCATE ON baton.audit
  FOR EACH STATEMENT EXECUTE FUNCTION baton.keep_audit();

ALTER TABLE baton.fleets    ENABLE ROW LEVEL SECURITY;
ALTER TABLE baton.devices   ENABLE ROW LEVEL SECURITY;
ALTER TABLE baton.mailboxes ENABLE ROW LEVEL SECURITY;
ALTER TABLE baton.messages  ENABLE ROW LEVEL SECURITY;
ALTER TABLE baton.presence  ENABLE ROW LEVEL SECURITY;
ALTER TABLE baton.homes     ENABLE ROW LEVEL SECURITY;
ALTER TABLE baton.audit     ENABLE ROW LEVEL SECURITY;

-- A sub-select is asked once a statement and not once a row.
CREATE POLICY own ON baton.fleets FOR SELECT TO baton_device USING (fleet = (SELECT baton.my_fleet()));
CREATE POLICY see ON baton.devices FOR SELECT TO baton_device USING (fleet = (SELECT baton.my_fleet()));
CREATE POLICY own ON baton.devices FOR UPDATE TO baton_device
  USING (fleet = (SELECT baton.my_fleet()) AND name = (SELECT baton.my_name()))
  WITH CHECK (fleet = (SELECT baton.my_fleet()) AND name = (SELECT baton.my_name()));
CREATE POLICY see ON baton.mailboxes FOR SELECT TO baton_device
  USING (fleet = (SELECT baton.my_fleet()) AND machine = (SELECT baton.my_name()));
CREATE POLICY own ON baton.mailboxes FOR UPDATE TO baton_device
  USING (fleet = (SELECT baton.my_fleet()) AND machine = (SELECT baton.my_name()));
CREATE POLICY send ON baton.messages FOR INSERT TO baton_device
  WITH CHECK (fleet = (SELECT baton.my_fleet()) AND sender = (SELECT baton.my_name()));
CREATE POLICY read ON baton.messages FOR SELECT TO baton_device
  USING (fleet = (SELECT baton.my_fleet()) AND recipient = (SELECT baton.my_name()));
CREATE POLICY done ON baton.messages FOR DELETE TO baton_device
  USING (fleet = (SELECT baton.my_fleet()) AND recipient = (SELECT baton.my_name()));
CREATE POLICY see ON baton.presence FOR SELECT TO baton_device USING (fleet = (SELECT baton.my_fleet()));
CREATE POLICY say ON baton.presence FOR INSERT TO baton_device
  WITH CHECK (fleet = (SELECT baton.my_fleet()) AND machine = (SELECT baton.my_name()));
CREATE POLICY own ON baton.presence FOR UPDATE TO baton_device
  USING (fleet = (SELECT baton.my_fleet()) AND machine = (SELECT baton.my_name()))
  WITH CHECK (fleet = (SELECT baton.my_fleet()) AND machine = (SELECT baton.my_name()));
CREATE POLICY see ON baton.homes FOR SELECT TO baton_device USING (fleet = (SELECT baton.my_fleet()));
CREATE POLICY say ON baton.homes FOR INSERT TO baton_device
  WITH CHECK (fleet = (SELECT baton.my_fleet()) AND home = (SELECT baton.my_name()));
CREATE POLICY give ON baton.homes FOR UPDATE TO baton_device
  USING (fleet = (SELECT baton.my_fleet()) AND home = (SELECT baton.my_name()))
  WITH CHECK (fleet = (SELECT baton.my_fleet()));
CREATE POLICY see ON baton.audit FOR SELECT TO baton_device USING (fleet = (SELECT baton.my_fleet()));

REVOKE ALL ON ALL TABLES IN SCHEMA baton FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA baton FROM PUBLIC;
GRANT USAGE ON SCHEMA baton TO baton_device;
GRANT SELECT ON baton.meta, baton.fleets, baton.devices, baton.mailboxes, baton.messages, baton.presence, baton.homes,
  baton.audit TO baton_device;
GRANT UPDATE (card, joined, gone, epoch, incarnation, beats, beat, every_seconds, stopped) ON baton.devices TO baton_device;
GRANT UPDATE (fetched) ON baton.mailboxes TO baton_device;
GRANT INSERT, DELETE ON baton.messages TO baton_device;
GRANT INSERT, UPDATE ON baton.presence TO baton_device;
GRANT INSERT, UPDATE (home, epoch, at) ON baton.homes TO baton_device;
GRANT EXECUTE ON FUNCTION baton.my_fleet(), baton.my_name(), baton.wakes(text, text) TO baton_device;
