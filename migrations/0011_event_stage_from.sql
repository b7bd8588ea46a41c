-- Events tell where an attempt entered its stage, as jobs do.
ALTER TABLE job_events ADD COLUMN stage_from INTEGER;

DROP TRIGGER jobs_changed;

CREATE TRIGGER jobs_changed AFTER UPDATE OF version ON jobs WHEN NEW.version > OLD.version
BEGIN
    INSERT INTO job_events
        (job, version, moved, status, attempt, stage, step, steps, stage_from, stage_at, step_at)
    VALUES (NEW.id, NEW.version, NEW.status <> OLD.status, NEW.status, NEW.attempt,
            NEW.stage, NEW.step, NEW.steps, NEW.stage_from, NEW.stage_at, NEW.step_at);
END;
