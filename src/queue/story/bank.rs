//! Which of the remembered frames a shot gets.

use std::collections::HashSet;

use sqlx::SqliteConnection;
use uuid::Uuid;

use super::BankFrame;
use crate::pipeline::memory;
use crate::queue::QueueError;

/// The frames that count for a shot, in story order: those of the shots before it, as made by the jobs that count, and
/// those that the client has given. Dropped ones are among them.
pub(super) async fn of_story(
    db: &mut SqliteConnection,
    story: Uuid,
    before: u32,
) -> Result<Vec<BankFrame>, QueueError> {
    // Within a shot: its own frames by their place in the video, then what the client has added after it.
    Ok(sqlx::query_as(
        "SELECT memory.id AS memory_id, memory.shot, memory.job, memory.frame, memory.pinned, memory.dropped, inputs.*
         FROM story_memory AS memory JOIN inputs USING (sha256)
         WHERE memory.story = $1
            AND (memory.job IS NULL
                OR (memory.shot < $2 AND EXISTS (SELECT 1 FROM story_shots WHERE story_shots.job = memory.job)))
         ORDER BY memory.shot, memory.job IS NULL, memory.id",
    )
    .bind(story.hyphenated())
    .bind(before)
    .fetch_all(db)
    .await?)
}

/// What a shot remembers of the frames that are not dropped, at most `most`, in story order: those that are pinned, and of
/// the others StoryMem's own window, the first `fixed` and the latest.
pub(super) fn window(bank: &[BankFrame], most: usize, fixed: usize) -> Vec<&BankFrame> {
    let bank: Vec<&BankFrame> = bank.iter().filter(|frame| !frame.dropped).collect();
    let (pinned, free): (Vec<&BankFrame>, Vec<&BankFrame>) = bank.iter().partition(|frame| frame.pinned);
    let room = most.saturating_sub(pinned.len());
    let chosen = memory::window(free.len(), room, fixed).into_iter().map(|n| free[n]);
    let chosen: HashSet<i64> = pinned.into_iter().take(most).chain(chosen).map(|frame| frame.id).collect();
    bank.into_iter().filter(|frame| chosen.contains(&frame.id)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::Size;
    use crate::queue::Image;
    use crate::storage::Digest;

    fn frame(id: i64, pinned: bool, dropped: bool) -> BankFrame {
        let image = Image {
            sha256: Digest::of(&id.to_le_bytes()),
            media_type: "image/png".to_owned(),
            bytes: 1,
            size: Size { width: 1, height: 1 },
        };
        BankFrame { id, shot: 0, frame: None, image, pinned, dropped }
    }

    fn ids(frames: &[&BankFrame]) -> Vec<i64> {
        frames.iter().map(|frame| frame.id).collect()
    }

    #[test]
    fn the_first_and_the_latest_are_remembered() {
        let bank: Vec<_> = (0..14).map(|id| frame(id, false, false)).collect();
        assert_eq!(ids(&window(&bank, 10, 3)), [0, 1, 2, 7, 8, 9, 10, 11, 12, 13]);
        assert_eq!(ids(&window(&bank[..10], 10, 3)), (0..10).collect::<Vec<_>>());
        assert_eq!(ids(&window(&bank, 3, 3)), [0, 1, 2]);
        assert_eq!(ids(&window(&bank, 2, 0)), [12, 13]);
    }

    #[test]
    fn what_is_pinned_stays_and_what_is_dropped_does_not() {
        let mut bank: Vec<_> = (0..14).map(|id| frame(id, false, false)).collect();
        bank[5].pinned = true;
        bank[0].dropped = true;
        assert_eq!(ids(&window(&bank, 6, 3)), [1, 2, 3, 5, 12, 13]);
        assert_eq!(ids(&window(&bank, 1, 3)), [5]);
    }

    proptest! {
        #[test]
        fn a_window_is_as_large_as_it_can_be(
            marks in prop::collection::vec((any::<bool>(), any::<bool>()), 0..40),
            most in 1..12_usize,
            fixed in 0..12_usize,
        ) {
            let frames = (0..).zip(&marks).map(|(id, &(pinned, dropped))| frame(id, pinned && !dropped, dropped));
            let bank: Vec<_> = frames.collect();
            let alive: Vec<i64> = bank.iter().filter(|frame| !frame.dropped).map(|frame| frame.id).collect();
            let got = ids(&window(&bank, most, fixed));
            prop_assert_eq!(got.len(), alive.len().min(most));
            prop_assert!(got.is_sorted() && got.iter().all(|id| alive.contains(id)));
            let pinned: Vec<i64> = bank.iter().filter(|frame| frame.pinned).map(|frame| frame.id).collect();
            prop_assert!(pinned.len() > most || pinned.iter().all(|id| got.contains(id)));
        }
    }
}
