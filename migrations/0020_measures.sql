-- What happened, counted where it happens: in the transaction that makes it so, whichever process and statement that
-- is. Jobs and attempts are deleted in time; these numbers only rise, as Prometheus wants its counters.

CREATE TABLE counters (
    metric           TEXT    NOT NULL,
    label            TEXT    NOT NULL,
    value            INTEGER NOT NULL,
    PRIMARY KEY (metric, label)
) STRICT;

-- Histograms: a row for each bucket that something fell into.
CREATE TABLE buckets (
    metric           TEXT    NOT NULL,
    label            TEXT    NOT NULL,
    upper            REAL    NOT NULL,              -- seconds; 9e999 is infinity
    count            INTEGER NOT NULL,
    sum              REAL    NOT NULL,              -- of what fell into this bucket
    PRIMARY KEY (metric, label, upper)
) STRICT;

CREATE TABLE bounds (upper REAL NOT NULL PRIMARY KEY) STRICT;

INSERT INTO bounds (upper) VALUES
    (0.01), (0.03), (0.1), (0.3), (1), (2), (3), (5), (10), (20), (30), (60), (120), (300), (600), (1800), (3600),
    (7200), (9e999);

CREATE TRIGGER count_queued AFTER INSERT ON jobs
BEGIN
    INSERT INTO counters (metric, label, value) VALUES ('jobs_submitted', NEW.requires, 1)
    ON CONFLICT (metric, label) DO UPDATE SET value = value + 1;
END;

CREATE TRIGGER count_ended AFTER UPDATE OF status ON jobs
WHEN NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL
BEGIN
    INSERT INTO counters (metric, label, value)
    VALUES ('jobs_ended', NEW.status || ':' || COALESCE(NEW.error_code, ''), 1)
    ON CONFLICT (metric, label) DO UPDATE SET value = value + 1;
END;

CREATE TRIGGER count_claims AFTER INSERT ON attempts
BEGIN
    INSERT INTO counters (metric, label, value) VALUES ('claims', '', 1)
    ON CONFLICT (metric, label) DO UPDATE SET value = value + 1;
END;

CREATE TRIGGER count_attempts AFTER UPDATE OF outcome ON attempts
WHEN NEW.outcome IS NOT NULL AND OLD.outcome IS NULL
BEGIN
    INSERT INTO counters (metric, label, value) VALUES ('attempts_ended', NEW.outcome, 1)
    ON CONFLICT (metric, label) DO UPDATE SET value = value + 1;
END;

-- Several steps may pass between two heartbeats: each counts with their mean.
CREATE TRIGGER measure_steps AFTER UPDATE OF step ON jobs
WHEN NEW.stage = 'denoise' AND OLD.stage = 'denoise' AND NEW.step > OLD.step AND NEW.lease_token = OLD.lease_token
BEGIN
    INSERT INTO buckets (metric, label, upper, count, sum)
    SELECT 'step_seconds', '', (SELECT MIN(upper) FROM bounds WHERE upper >= mean), steps, mean * steps
    FROM (SELECT NEW.step - OLD.step AS steps,
                 MAX(NEW.step_at - OLD.step_at, 0) / 1000.0 / (NEW.step - OLD.step) AS mean)
    WHERE TRUE
    ON CONFLICT (metric, label, upper) DO UPDATE SET count = count + excluded.count, sum = sum + excluded.sum;
END;

CREATE TRIGGER measure_stages AFTER UPDATE OF made ON jobs WHEN NEW.made IS NOT NULL AND OLD.made IS NULL
BEGIN
    INSERT INTO buckets (metric, label, upper, count, sum)
    SELECT 'stage_seconds', stage, (SELECT MIN(upper) FROM bounds WHERE upper >= seconds), 1, seconds
    FROM (SELECT replace(key, '_seconds', '') AS stage, value AS seconds FROM json_each(NEW.made, '$.timings')
          UNION ALL SELECT 'mp4', NEW.made ->> '$.mp4_seconds'
          UNION ALL SELECT 'queued', MAX(NEW.started_at - NEW.created_at, 0) / 1000.0)
    WHERE seconds IS NOT NULL
    ON CONFLICT (metric, label, upper) DO UPDATE SET count = count + excluded.count, sum = sum + excluded.sum;
END;

ALTER TABLE workers ADD COLUMN resident_bytes INTEGER;  -- memory the process has
