-- What the API keeps for its clients: whose a job is, what happened to it and when, answers to repeat, uploads, keys,
-- webhooks to deliver, and the ids of jobs that were removed.

ALTER TABLE jobs ADD COLUMN owner       TEXT;       -- whose key asked for it; null without keys
ALTER TABLE jobs ADD COLUMN traceparent TEXT;       -- W3C Trace Context, as it came
ALTER TABLE jobs ADD COLUMN retry_of    TEXT;       -- the job this one tries again
ALTER TABLE jobs ADD COLUMN webhook_url TEXT;

CREATE INDEX jobs_by_owner ON jobs (owner, id);
CREATE INDEX jobs_unfinished ON jobs (owner) WHERE finished_at IS NULL;

-- One row for each version of a job after the first, so that whoever follows a job can miss nothing. A trigger writes
-- them: whatever changes a job can't forget to.
CREATE TABLE job_events (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of commits
    job              TEXT    NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    version          INTEGER NOT NULL,
    moved            INTEGER NOT NULL,              -- 1: the status changed, 0: only the progress
    status           TEXT    NOT NULL,
    attempt          INTEGER NOT NULL,
    stage            TEXT,
    step             INTEGER,
    steps            INTEGER,
    stage_at         INTEGER,
    step_at          INTEGER
) STRICT;

CREATE UNIQUE INDEX job_events_by_job ON job_events (job, version);

CREATE TRIGGER jobs_changed AFTER UPDATE OF version ON jobs WHEN NEW.version > OLD.version
BEGIN
    INSERT INTO job_events (job, version, moved, status, attempt, stage, step, steps, stage_at, step_at)
    VALUES (NEW.id, NEW.version, NEW.status <> OLD.status, NEW.status, NEW.attempt,
            NEW.stage, NEW.step, NEW.steps, NEW.stage_at, NEW.step_at);
END;

-- Webhooks: written by the transaction that ends the job, whichever it is.
CREATE TABLE outbox (
    id               TEXT    NOT NULL PRIMARY KEY,  -- `webhook-id`: the same in every try
    job              TEXT    NOT NULL UNIQUE,       -- no foreign key: the message may outlive the job
    url              TEXT    NOT NULL,
    traceparent      TEXT,
    created_at       INTEGER NOT NULL,
    payload          TEXT,                          -- made at the first try, so that all tries say the same
    tries            INTEGER NOT NULL DEFAULT 0,
    due_at           INTEGER NOT NULL,
    last_status      INTEGER,                       -- of the receiver's last answer
    last_error       TEXT,
    outcome          TEXT    CHECK (outcome IN ('delivered', 'given_up')),
    ended_at         INTEGER,
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
) STRICT;

CREATE INDEX outbox_due ON outbox (due_at) WHERE outcome IS NULL;

CREATE TRIGGER jobs_ended AFTER UPDATE OF finished_at ON jobs
WHEN NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL AND NEW.webhook_url IS NOT NULL
BEGIN
    INSERT INTO outbox (id, job, url, traceparent, created_at, due_at)
    VALUES ('msg_' || replace(NEW.id, '-', ''), NEW.id, NEW.webhook_url, NEW.traceparent,
            NEW.finished_at, NEW.finished_at);
END;

-- The first answer to each `Idempotency-Key`.
CREATE TABLE idempotency (
    owner            TEXT    NOT NULL,              -- empty without keys
    key              TEXT    NOT NULL,
    fingerprint      TEXT    NOT NULL,              -- SHA-256 of what was asked
    answer           TEXT    NOT NULL,              -- JSON
    created_at       INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Who has sent an image with `POST /uploads`.
CREATE TABLE uploads (
    owner            TEXT    NOT NULL,              -- empty without keys
    sha256           TEXT    NOT NULL REFERENCES inputs (sha256) ON DELETE CASCADE,
    created_at       INTEGER NOT NULL,              -- of the latest time
    PRIMARY KEY (owner, sha256)
) STRICT, WITHOUT ROWID;

CREATE INDEX uploads_by_input ON uploads (sha256);

CREATE TABLE api_keys (
    id               TEXT    NOT NULL PRIMARY KEY,  -- the part of the key that is no secret
    owner            TEXT    NOT NULL,
    hash             TEXT    NOT NULL,              -- SHA-256 of the key
    max_jobs         INTEGER,                       -- most jobs of the owner that have not ended
    created_at       INTEGER NOT NULL,
    revoked_at       INTEGER
) STRICT;

CREATE TABLE tombstones (
    job              TEXT    NOT NULL PRIMARY KEY,
    owner            TEXT,
    removed_at       INTEGER NOT NULL
) STRICT;
