//! Pictures with the statistics of real ones.

use image::{Rgb, RgbImage};

/// Leaves of every size that cover each other: edges, surfaces and detail at every scale, as in photographs (the "dead
/// leaves" model).
pub fn scene(seed: u64) -> RgbImage {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut image = RgbImage::new(588, 336);
    for _ in 0..1500 {
        // Radii from 4 to 80 pixels, their number falling with the third power.
        let radius = 4.0 / (1.0 - random.f32() * (1.0 - (4.0f32 / 80.0).powi(2))).sqrt();
        let (x, y) = (random.f32() * 588.0, random.f32() * 336.0);
        let colour = Rgb([random.u8(20..235), random.u8(20..235), random.u8(20..235)]);
        let range = |centre: f32, most: u32| {
            (centre - radius).max(0.0) as u32..((centre + radius) as u32 + 1).min(most)
        };
        for row in range(y, 336) {
            for column in range(x, 588) {
                let (dx, dy) = (column as f32 - x, row as f32 - y);
                if dx * dx + dy * dy <= radius * radius {
                    image.put_pixel(column, row, colour);
                }
            }
        }
    }
    image
}
