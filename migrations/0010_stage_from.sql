-- The unit at which an attempt entered its stage: a resumed one doesn't begin at 0, and its speed is that of the units
-- it did itself.
ALTER TABLE jobs ADD COLUMN stage_from INTEGER;

-- Whether a worker was of use: by its name.
CREATE INDEX attempts_by_worker ON attempts (worker);
