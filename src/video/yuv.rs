//! RGB to BT.709 limited-range Y'CbCr 4:2:0 and back.
//!
//! The matrix of ITU-R BT.709-6 with 8-bit quantisation (Y' 16..235, Cb and Cr 16..240) is rational, so the way
//! there is computed exactly in integers and rounded once, half up: every machine gives the same bytes, greys have
//! Cb = Cr = 128 exactly.
//!
//! Chroma is sited *left*: H.264 assumes so when the bitstream does not say otherwise, and the encoder has no field
//! to say otherwise. A chroma sample lies on the even luma column and halfway between two rows, so its filter is
//! [1 2 1]/4 across and [1 1]/2 down, with edges repeated.

/// Luma in units of 1/10000: `Y = 0.2126 R + 0.7152 G + 0.0722 B`.
const Y: [u32; 3] = [2126, 7152, 722];
const Y_UNITS: u32 = 10_000;

/// `(B - Y) / 1.8556` in units of 1/9278; the weights add up to 0.
const CB: [i32; 3] = [-1063, -3576, 4639];
const CB_UNITS: i32 = 9278;

/// `(R - Y) / 1.5748` in units of 1/7874; the weights add up to 0.
const CR: [i32; 3] = [3937, -3576, -361];
const CR_UNITS: i32 = 7874;

/// One picture: planes of `[height, width]` luma and `[height/2, width/2]` chroma.
pub(super) struct Yuv420 {
    width: usize,
    pub(super) y: Vec<u8>,
    pub(super) cb: Vec<u8>,
    pub(super) cr: Vec<u8>,
}

impl Yuv420 {
    /// A picture of even `width` and `height`.
    pub(super) fn new(width: usize, height: usize) -> Self {
        let chroma = vec![128; width / 2 * (height / 2)];
        Self { width, y: vec![16; width * height], cb: chroma.clone(), cr: chroma }
    }

    /// Overwrites the picture with `rgb`, `[height, width, 3]`.
    pub(super) fn read_rgb(&mut self, rgb: &[u8]) {
        let row = self.width * 3;
        for (y, pixel) in self.y.iter_mut().zip(rgb.chunks_exact(3)) {
            *y = luma(pixel);
        }
        let rows = rgb.chunks_exact(2 * row);
        let chroma = self.cb.chunks_exact_mut(self.width / 2).zip(self.cr.chunks_exact_mut(self.width / 2));
        for (two_rows, (cb, cr)) in rows.zip(chroma) {
            let (top, bottom) = two_rows.split_at(row);
            chroma_row(top, bottom, cb, cr);
        }
    }
}

fn luma(pixel: &[u8]) -> u8 {
    // 219/255 of full scale above 16; the numerator stays below 2^30.
    const ONE: u32 = 255 * Y_UNITS;
    let sum = Y[0] * u32::from(pixel[0]) + Y[1] * u32::from(pixel[1]) + Y[2] * u32::from(pixel[2]);
    ((219 * sum + 16 * ONE + ONE / 2) / ONE) as u8
}

/// One row of chroma from the two rows of RGB it lies between.
fn chroma_row(top: &[u8], bottom: &[u8], cb: &mut [u8], cr: &mut [u8]) {
    let columns = top.chunks_exact(6).zip(bottom.chunks_exact(6));
    let mut left = [0; 3];
    for (x, ((top, bottom), (cb, cr))) in columns.zip(cb.iter_mut().zip(cr)).enumerate() {
        let down = |i: usize| i32::from(top[i]) + i32::from(bottom[i]);
        let here = [down(0), down(1), down(2)];
        let right = [down(3), down(4), down(5)];
        if x == 0 {
            left = here;
        }
        let rgb = [0, 1, 2].map(|c| left[c] + 2 * here[c] + right[c]);
        *cb = chroma(rgb, CB, CB_UNITS);
        *cr = chroma(rgb, CR, CR_UNITS);
        left = right;
    }
}

/// `128 + 224/255 * weights . rgb / (8 units)`, for `rgb` summed with weights that add up to 8.
fn chroma(rgb: [i32; 3], weights: [i32; 3], units: i32) -> u8 {
    let one = 255 * units;
    let sum = weights[0] * rgb[0] + weights[1] * rgb[1] + weights[2] * rgb[2];
    // |sum| is at most 2040 * units / 2, so the numerator is positive and below 2^30.
    ((224 / 8 * sum + 128 * one + one / 2) / one) as u8
}

/// Planes as a decoder hands them out: rows may be longer than the picture.
pub(super) struct Planes<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) y: &'a [u8],
    pub(super) cb: &'a [u8],
    pub(super) cr: &'a [u8],
    pub(super) y_stride: usize,
    pub(super) c_stride: usize,
}

impl Planes<'_> {
    /// Appends the picture to `rgb` as `[height, width, 3]`, chroma interpolated linearly from its left siting.
    pub(super) fn append_rgb(&self, rgb: &mut Vec<u8>) {
        let half = self.width / 2;
        let rows = self.height / 2;
        let (mut cb, mut cr) = (vec![0; half], vec![0; half]);
        for (row, y) in self.y.chunks(self.y_stride).take(self.height).enumerate() {
            let near = row / 2;
            // Chroma rows lie at luma 0.5, 2.5, …: a luma row is a quarter of the way to the next one.
            let far = if row % 2 == 0 { near.saturating_sub(1) } else { (near + 1).min(rows - 1) };
            self.blend(self.cb, near, far, &mut cb);
            self.blend(self.cr, near, far, &mut cr);
            for (x, &y) in y[..self.width].iter().enumerate() {
                rgb.extend(to_rgb(y, across(&cb, x), across(&cr, x)));
            }
        }
    }

    /// `3 near + far` of two chroma rows.
    fn blend(&self, plane: &[u8], near: usize, far: usize, out: &mut [i32]) {
        let row = |index: usize| &plane[index * self.c_stride..][..out.len()];
        let (near, far) = (row(near), row(far));
        for ((out, &near), &far) in out.iter_mut().zip(near).zip(far) {
            *out = 3 * i32::from(near) + i32::from(far);
        }
    }
}

/// Eight times the chroma at luma column `x`, from a row of four times the chroma.
fn across(row: &[i32], x: usize) -> i32 {
    let here = row[x / 2];
    if x.is_multiple_of(2) { 2 * here } else { here + row[(x / 2 + 1).min(row.len() - 1)] }
}

/// The inverse matrix; `cb8` and `cr8` are eight times the chroma.
fn to_rgb(y: u8, cb8: i32, cr8: i32) -> [u8; 3] {
    let y = (f32::from(y) - 16.0) * (255.0 / 219.0);
    let scale = 255.0 / 224.0 / 8.0;
    let (cb, cr) = ((cb8 - 8 * 128) as f32 * scale, (cr8 - 8 * 128) as f32 * scale);
    let red = y + 1.5748 * cr;
    let blue = y + 1.8556 * cb;
    let green = (y - 0.2126 * red - 0.0722 * blue) / 0.7152;
    // `as` saturates, so values outside 0..=255 are clipped.
    [red, green, blue].map(|value| value.round() as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn convert(width: usize, height: usize, rgb: &[u8]) -> Yuv420 {
        let mut yuv = Yuv420::new(width, height);
        yuv.read_rgb(rgb);
        yuv
    }

    fn back(width: usize, height: usize, yuv: &Yuv420) -> Vec<u8> {
        let mut rgb = Vec::new();
        let (y, cb, cr) = (&yuv.y, &yuv.cb, &yuv.cr);
        Planes { width, height, y, cb, cr, y_stride: width, c_stride: width / 2 }.append_rgb(&mut rgb);
        rgb
    }

    /// BT.709-6, item 3 and table 4, in floating point.
    fn reference([r, g, b]: [f64; 3]) -> [f64; 3] {
        let y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
        [
            16.0 + 219.0 / 255.0 * y,
            128.0 + 224.0 / 255.0 * (b - y) / 1.8556,
            128.0 + 224.0 / 255.0 * (r - y) / 1.5748,
        ]
    }

    fn pixels(count: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 3 * count)
    }

    #[test]
    fn colour_bars_have_the_codes_of_the_standard() {
        // 100 % bars, from the published 8-bit BT.709 table.
        for (rgb, codes) in [
            ([255, 255, 255], [235, 128, 128]),
            ([255, 255, 0], [219, 16, 138]),
            ([0, 255, 255], [188, 154, 16]),
            ([0, 255, 0], [173, 42, 26]),
            ([255, 0, 255], [78, 214, 230]),
            ([255, 0, 0], [63, 102, 240]),
            ([0, 0, 255], [32, 240, 118]),
            ([0, 0, 0], [16, 128, 128]),
        ] {
            let yuv = convert(2, 2, &rgb.repeat(4));
            assert_eq!([yuv.y[0], yuv.cb[0], yuv.cr[0]], codes, "{rgb:?}");
        }
    }

    #[test]
    fn chroma_is_sited_on_even_columns() {
        // One blue column in black: full weight half on its own column, a quarter to each neighbour's sample.
        let column = |blue: usize| {
            let row: Vec<u8> = (0..8).flat_map(|x| [0, 0, if x == blue { 255 } else { 0 }]).collect();
            convert(8, 2, &row.repeat(2)).cb.iter().map(|&cb| i32::from(cb) - 128).collect::<Vec<_>>()
        };
        assert_eq!(column(4), [0, 0, 56, 0]);
        assert_eq!(column(3), [0, 28, 28, 0]);
        assert_eq!(column(0), [84, 0, 0, 0], "the left edge repeats");
        assert_eq!(column(7), [0, 0, 0, 28]);
    }

    proptest! {
        #[test]
        fn flat_colours_round_like_the_standard(rgb in any::<[u8; 3]>()) {
            let yuv = convert(4, 4, &rgb.repeat(16));
            let exact = reference(rgb.map(f64::from));
            for (plane, exact) in [&yuv.y, &yuv.cb, &yuv.cr].into_iter().zip(exact) {
                for &code in plane {
                    prop_assert!((f64::from(code) - exact).abs() <= 0.5 + 1e-9, "{rgb:?}: {code} for {exact}");
                }
            }
        }

        #[test]
        fn greys_stay_grey(grey in any::<u8>()) {
            let yuv = convert(4, 4, &[grey; 48]);
            prop_assert!(yuv.cb.iter().chain(&yuv.cr).all(|&code| code == 128));
            prop_assert!(back(4, 4, &yuv).iter().all(|&value| value.abs_diff(grey) <= 1));
        }

        #[test]
        fn flat_colours_survive_the_round_trip(rgb in any::<[u8; 3]>()) {
            // Half a code of error in each of Y, Cb, Cr is at most 0.58 + 0.9 (red), 0.58 + 1.06 (blue) and rounding.
            for pixel in back(4, 2, &convert(4, 2, &rgb.repeat(8))).chunks_exact(3) {
                for (got, want) in pixel.iter().zip(rgb) {
                    prop_assert!(got.abs_diff(want) <= 2, "{rgb:?} came back as {pixel:?}");
                }
            }
        }

        #[test]
        fn chroma_is_the_filtered_average(rgb in pixels(8 * 4)) {
            let yuv = convert(8, 4, &rgb);
            let at = |x: usize, y: usize| [0, 1, 2].map(|c| f64::from(rgb[(y * 8 + x) * 3 + c]));
            for y in 0..2 {
                for x in 0..4 {
                    let mut mean = [0.0; 3];
                    for row in [2 * y, 2 * y + 1] {
                        for (column, weight) in [((2 * x).max(1) - 1, 1.0), (2 * x, 2.0), (2 * x + 1, 1.0)] {
                            let pixel = at(column, row);
                            (0..3).for_each(|c| mean[c] += weight / 8.0 * pixel[c]);
                        }
                    }
                    let [_, cb, cr] = reference(mean);
                    prop_assert!((f64::from(yuv.cb[y * 4 + x]) - cb).abs() <= 0.5 + 1e-9);
                    prop_assert!((f64::from(yuv.cr[y * 4 + x]) - cr).abs() <= 0.5 + 1e-9);
                }
            }
        }
    }
}
