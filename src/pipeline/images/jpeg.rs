//! Whether a JPEG is whole. The decoder fills what is missing with grey, and a half-grey memory would do silent harm.

/// Whether the file goes on to its end marker; bytes after that don't matter.
pub(super) fn is_complete(bytes: &[u8]) -> bool {
    const START_OF_IMAGE: u8 = 0xd8;
    const END_OF_IMAGE: u8 = 0xd9;

    let mut rest = bytes;
    loop {
        // Between segments, and in the coded data after a start of scan, the next marker is the next 0xff that is
        // followed neither by a stuffed 0, a fill byte nor a restart marker.
        let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0x01 | 0xff | 0xd0..=0xd7);
        let Some(at) = rest.windows(2).position(is_marker) else { return false };
        let (marker, segment) = (rest[at + 1], &rest[at + 2..]);
        match (marker, segment) {
            (END_OF_IMAGE, _) => return true,
            (START_OF_IMAGE, _) => rest = segment,
            (_, [high, low, ..]) => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                let Some(after) = segment.get(length..) else { return false };
                rest = after;
            }
            _ => return false,
        }
    }
}
