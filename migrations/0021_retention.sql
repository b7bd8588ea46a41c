-- The files of a result are given up some time after the job has ended; the row stays longer, and tells of it.
ALTER TABLE jobs ADD COLUMN expires_at INTEGER;     -- what was promised when the job ended
ALTER TABLE jobs ADD COLUMN expired_at INTEGER;     -- when it was done

-- Results from before this was known get the default of a week.
UPDATE jobs SET expires_at = finished_at + 604800000 WHERE made IS NOT NULL;

CREATE INDEX jobs_with_files ON jobs (expires_at) WHERE expires_at IS NOT NULL AND expired_at IS NULL;
CREATE INDEX jobs_by_end ON jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX inputs_by_age ON inputs (created_at);
CREATE INDEX tombstones_by_age ON tombstones (removed_at);

CREATE TRIGGER count_webhooks AFTER UPDATE OF last_error ON outbox
BEGIN
    INSERT INTO counters (metric, label, value)
    VALUES ('webhooks', COALESCE(NEW.outcome, 'failed'), 1)
    ON CONFLICT (metric, label) DO UPDATE SET value = value + 1;
END;

CREATE TRIGGER count_expired AFTER UPDATE OF expired_at ON jobs
WHEN NEW.expired_at IS NOT NULL AND OLD.expired_at IS NULL
BEGIN
    INSERT INTO counters (metric, label, value) VALUES ('expired', 'result', 1)
    ON CONFLICT (metric, label) DO UPDATE SET value = value + 1;
END;

CREATE TRIGGER count_forgotten_inputs AFTER DELETE ON inputs
BEGIN
    INSERT INTO counters (metric, label, value) VALUES ('expired', 'input', 1)
    ON CONFLICT (metric, label) DO UPDATE SET value = value + 1;
END;
